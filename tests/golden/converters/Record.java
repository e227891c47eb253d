// Writes golden.json: what Kafka Connect's own classes make of the inputs in inputs.json.
// Run in this folder, with Kafka Connect's jars in a folder JARS: java -cp "$JARS/*" Record.java
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.*;
import org.apache.kafka.connect.storage.*;
import org.apache.kafka.connect.transforms.Transformation;

public class Record {
    static final ObjectMapper JSON = new ObjectMapper();

    static Map<String, String> config(JsonNode node) {
        Map<String, String> found = new LinkedHashMap<>();
        if (node != null) node.fields().forEachRemaining(e -> found.put(e.getKey(), e.getValue().asText()));
        return found;
    }

    static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : node.asText().getBytes(StandardCharsets.ISO_8859_1);
    }

    static String latin1(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    static String utf8(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static JsonConverter json(JsonNode settings) {
        JsonConverter converter = new JsonConverter();
        converter.configure(config(settings), false);
        return converter;
    }

    // A text in, the value's toString and the text out of the same converter, or the word error.
    static void jsonCases(ArrayNode in, ArrayNode out) {
        for (JsonNode group : in) {
            JsonConverter reader = json(group.get("config"));
            JsonConverter writer = json(group.has("write") ? group.get("write") : group.get("config"));
            for (JsonNode text : group.get("texts")) {
                ObjectNode result = out.addObject();
                result.set("config", group.get("config"));
                if (group.has("write")) result.set("write", group.get("write"));
                result.set("text", text);
                try {
                    byte[] data = text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
                    SchemaAndValue value = reader.toConnectData("t", data);
                    result.put("value", value.value() == null ? null : String.valueOf(value.value()));
                    result.put("written", utf8(writer.fromConnectData("t", value.schema(), value.value())));
                } catch (Exception e) {
                    result.put("error", true);
                }
            }
        }
    }

    static void converterCases(ArrayNode in, ArrayNode out) throws Exception {
        for (JsonNode group : in) {
            Converter converter = (Converter) Class.forName(group.get("class").asText()).getConstructor().newInstance();
            converter.configure(config(group.get("config")), false);
            for (JsonNode data : group.get("data")) {
                ObjectNode result = out.addObject();
                result.set("class", group.get("class"));
                result.set("config", group.get("config"));
                result.set("data", data);
                try {
                    SchemaAndValue value = converter.toConnectData("t", bytes(data));
                    boolean raw = value.value() instanceof byte[];
                    result.put("value", raw ? latin1((byte[]) value.value()) : value.value() == null ? null : value.value().toString());
                    result.put("type", value.schema().type().getName() + (value.schema().isOptional() ? "?" : ""));
                    result.put("written", latin1(converter.fromConnectData("t", value.schema(), value.value())));
                } catch (Exception e) {
                    result.put("error", true);
                }
            }
        }
    }

    static void headerCases(ArrayNode in, ArrayNode out) {
        SimpleHeaderConverter converter = new SimpleHeaderConverter();
        for (JsonNode text : in) {
            ObjectNode result = out.addObject();
            result.set("text", text);
            byte[] data = text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
            SchemaAndValue value = converter.toConnectHeader("t", "h", data);
            if (value == null) value = SchemaAndValue.NULL;  // for the text null
            result.put("type", value.schema() == null ? null : value.schema().type().getName());
            result.put("name", value.schema() == null ? null : value.schema().name());
            result.put("written", utf8(converter.fromConnectHeader("t", "h", value.schema(), value.value())));
        }
    }

    @SuppressWarnings("unchecked")
    static void transformCases(ArrayNode in, ArrayNode out) throws Exception {
        for (JsonNode group : in) {
            JsonConverter converter = json(group.get("config"));
            List<Transformation<SinkRecord>> chain = new ArrayList<>();
            for (JsonNode one : group.get("transforms")) {
                var transform = (Transformation<SinkRecord>) Class.forName(one.get("type").asText()).getConstructor().newInstance();
                Map<String, String> settings = config(one);
                settings.remove("type");
                transform.configure(settings);
                chain.add(transform);
            }
            for (JsonNode text : group.get("texts")) {
                ObjectNode result = out.addObject();
                result.set("config", group.get("config"));
                result.set("transforms", group.get("transforms"));
                result.set("text", text);
                try {
                    byte[] data = text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
                    SchemaAndValue value = converter.toConnectData("t", data);
                    SinkRecord record = new SinkRecord("t", 3, null, null, value.schema(), value.value(), 17L, 1700000000000L,
                        org.apache.kafka.common.record.TimestampType.CREATE_TIME);
                    for (Transformation<SinkRecord> transform : chain) record = transform.apply(record);
                    result.put("value", record.value() == null ? null : String.valueOf(record.value()));
                    result.put("written", utf8(converter.fromConnectData("t", record.valueSchema(), record.value())));
                } catch (Exception e) {
                    result.put("error", true);
                }
            }
        }
    }

    // FileStreamSourceTask over a file that grows piece by piece: all lines after each piece, and the position.
    static void fileCases(ArrayNode in, ArrayNode out) throws Exception {
        for (JsonNode pieces : in) {
            ObjectNode result = out.addObject();
            result.set("pieces", pieces);
            ArrayNode steps = result.putArray("steps");
            Path file = Files.createTempFile("golden", ".txt");
            SourceTask task = (SourceTask) Class.forName("org.apache.kafka.connect.file.FileStreamSourceTask").getConstructor().newInstance();
            task.initialize(new SourceTaskContext() {
                public Map<String, String> configs() { return Map.of(); }
                public org.apache.kafka.common.metrics.PluginMetrics pluginMetrics() { return null; }
                public OffsetStorageReader offsetStorageReader() {
                    return new OffsetStorageReader() {
                        public <T> Map<String, Object> offset(Map<String, T> partition) { return null; }
                        public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> p) { return Map.of(); }
                    };
                }
            });
            task.start(Map.of("file", file.toString(), "topic", "t"));
            for (JsonNode piece : pieces) {
                Files.write(file, bytes(piece), StandardOpenOption.APPEND);
                ObjectNode step = steps.addObject();
                ArrayNode lines = step.putArray("lines");
                Long position = null;
                List<SourceRecord> records;
                while ((records = task.poll()) != null) {
                    for (SourceRecord record : records) {
                        lines.add((String) record.value());
                        position = (Long) record.sourceOffset().get("position");
                    }
                }
                step.put("position", position);
            }
            task.stop();
            Files.delete(file);
        }
    }

    public static void main(String[] args) throws Exception {
        JsonNode in = JSON.readTree(new File("inputs.json"));
        ObjectNode out = JSON.createObjectNode();
        jsonCases((ArrayNode) in.get("json"), out.putArray("json"));
        converterCases((ArrayNode) in.get("converters"), out.putArray("converters"));
        headerCases((ArrayNode) in.get("headers"), out.putArray("headers"));
        transformCases((ArrayNode) in.get("transforms"), out.putArray("transforms"));
        fileCases((ArrayNode) in.get("files"), out.putArray("files"));
        JSON.enable(SerializationFeature.INDENT_OUTPUT).writeValue(new File("golden.json"), out);
    }
}
