// What AvroData makes of values: one JSON object a line in, one a line out. Confluent's is not on Maven Central; Apicurio's is
// a copy of it. `text`: a value with its schema, as JsonConverter reads it. `enhanced`, `meta`: the converter's options.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.serde.avro.NonRecordContainer;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.avro.Schema;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

public class Driver {
    static void run(JsonNode in, ObjectNode out, JsonConverter json) throws Exception {
        AvroData data = new AvroData(new AvroDataConfig(Map.of(
            "enhanced.avro.schema.support", in.get("enhanced").asText(), "connect.meta.data", in.get("meta").asText())));
        SchemaAndValue given = json.toConnectData("t", in.get("text").asText().getBytes(StandardCharsets.UTF_8));
        Schema schema = data.fromConnectSchema(given.schema());
        new Schema.Parser().parse(schema.toString());  // as a registry does: a name may not be defined twice
        out.put("schema", schema.toString());
        Object value = data.fromConnectData(given.schema(), given.value());
        if (value instanceof NonRecordContainer) value = ((NonRecordContainer) value).getValue();
        if (value instanceof byte[]) value = ByteBuffer.wrap((byte[]) value);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<Object>(schema).write(value, encoder);
        encoder.flush();
        out.put("bytes", Base64.getEncoder().encodeToString(bytes.toByteArray()));
        Object read = new GenericDatumReader<Object>(schema).read(null, DecoderFactory.get().binaryDecoder(bytes.toByteArray(), null));
        SchemaAndValue back = data.toConnectData(schema, read);
        out.put("back", new String(json.fromConnectData("t", back.schema(), back.value()), StandardCharsets.UTF_8));
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("schemas.enable", "true", "replace.null.with.default", "false"), false);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String line; (line = lines.readLine()) != null; ) {
            ObjectNode answer = mapper.createObjectNode();
            try {
                run(mapper.readTree(line), answer, json);
            } catch (Exception e) {
                answer.put("error", e.getClass().getName());
            }
            out.println(mapper.writeValueAsString(answer));
        }
        out.flush();
    }
}
