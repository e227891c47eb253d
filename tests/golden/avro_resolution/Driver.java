// What Avro reads from a record of one schema as one of another: one JSON object a line in, one a line out. The value that is
// read is written again, with the schema it was read as.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.avro.Schema;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;

public class Driver {
    static void run(JsonNode in, ObjectNode out) throws Exception {
        Schema written = new Schema.Parser().parse(in.get("written").toString());
        Schema wanted = new Schema.Parser().parse(in.get("wanted").toString());
        byte[] record = Base64.getDecoder().decode(in.get("bytes").asText());
        Object value = new GenericDatumReader<Object>(written, wanted).read(null, DecoderFactory.get().binaryDecoder(record, null));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<Object>(wanted).write(value, encoder);
        encoder.flush();
        out.put("bytes", Base64.getEncoder().encodeToString(bytes.toByteArray()));
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String line; (line = lines.readLine()) != null; ) {
            ObjectNode answer = mapper.createObjectNode();
            try {
                run(mapper.readTree(line), answer);
            } catch (Exception e) {
                answer.put("error", e.getClass().getName());
            }
            out.println(mapper.writeValueAsString(answer));
        }
        out.flush();
    }
}
