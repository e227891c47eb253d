// Reads lines {"schemas": false, "value": "{\"f\": …}"}; answers each with "text": what StringConverter writes of the
// field f as a header, in UTC. Run with Kafka Connect's jars in a folder JARS, in this one:
// java -Duser.timezone=UTC -cp "$JARS/*" HeaderTexts.java < header_texts.jsonl (an old "text" is ignored)
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.StringConverter;

public class HeaderTexts {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        StringConverter header = new StringConverter();
        header.configure(Map.of("converter.type", "header"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            ObjectNode one = (ObjectNode) json.readTree(line);
            JsonConverter reader = new JsonConverter();
            reader.configure(Map.of("schemas.enable", one.get("schemas").asText()), false);
            SchemaAndValue read = reader.toConnectData("t", one.get("value").asText().getBytes(StandardCharsets.UTF_8));
            Schema schema = read.schema() == null ? null : read.schema().field("f").schema();
            Object value = read.value() instanceof Struct struct ? struct.get("f") : ((Map<?, ?>) read.value()).get("f");
            byte[] written = header.fromConnectHeader("t", "h", schema, value);
            one.put("text", written == null ? null : new String(written, StandardCharsets.UTF_8));
            System.out.write((json.writeValueAsString(one) + "\n").getBytes(StandardCharsets.UTF_8));
        }
        System.out.flush();
    }
}
