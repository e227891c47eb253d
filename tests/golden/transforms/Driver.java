// What Kafka Connect's own transforms and predicates make of cases: one JSON object a line in, one a line out.
// `java -cp ... Driver < cases.jsonl > outcomes.jsonl`, or `Driver configs` for the ConfigDef of each class in stdin.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

@SuppressWarnings({"rawtypes", "unchecked"})
public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    record Step(Transformation transform, Predicate predicate, boolean negate) { }

    static Map<String, String> config(JsonNode node) {
        Map<String, String> found = new LinkedHashMap<>();
        if (node != null) node.fields().forEachRemaining(e -> found.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
        return found;
    }

    static JsonConverter json(boolean schemas, boolean replaceNulls, boolean key) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", String.valueOf(schemas), "replace.null.with.default", String.valueOf(replaceNulls)), key);
        return converter;
    }

    static byte[] utf8(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText().getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }


    static List<Step> chain(JsonNode steps) throws Exception {
        List<Step> chain = new ArrayList<>();
        for (JsonNode one : steps) {
            var transform = (Transformation) Class.forName(one.get("class").asText()).getConstructor().newInstance();
            transform.configure(config(one.get("config")));
            Predicate predicate = null;
            if (one.has("predicate")) {
                predicate = (Predicate) Class.forName(one.get("predicate").get("class").asText()).getConstructor().newInstance();
                predicate.configure(config(one.get("predicate").get("config")));
            }
            chain.add(new Step(transform, predicate, one.has("negate") && one.get("negate").asBoolean()));
        }
        return chain;
    }

    static void error(ObjectNode out, String kind, Throwable e) {
        out.put(kind, e.getClass().getName());
        out.put("message", e.getMessage());
    }

    static ConnectRecord read(JsonNode in, boolean sink, JsonConverter keys, JsonConverter values) {
        String topic = in.get("topic").asText();
        SchemaAndValue key = keys.toConnectData(topic, utf8(in.get("key")));
        SchemaAndValue value = values.toConnectData(topic, utf8(in.get("value")));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode one : in.get("headers")) headers.add(one.get(0).asText(), HEADERS.toConnectHeader(topic, one.get(0).asText(), utf8(one.get(1))));
        Integer partition = in.get("partition").isNull() ? null : in.get("partition").asInt();
        Long timestamp = in.get("timestamp").isNull() ? null : in.get("timestamp").asLong();
        if (sink) {
            return new SinkRecord(topic, partition, key.schema(), key.value(), value.schema(), value.value(), in.get("offset").asLong(),
                timestamp, TimestampType.CREATE_TIME, headers);
        }
        return new SourceRecord(Map.of(), Map.of(), topic, partition, key.schema(), key.value(), value.schema(), value.value(), timestamp, headers);
    }

    static void write(ConnectRecord record, ObjectNode out, JsonConverter keys, JsonConverter values) {
        out.put("topic", record.topic());
        out.put("partition", record.kafkaPartition());
        out.put("timestamp", record.timestamp());
        out.put("key", text(keys.fromConnectData(record.topic(), record.keySchema(), record.key())));
        out.put("value", text(values.fromConnectData(record.topic(), record.valueSchema(), record.value())));
        ArrayNode headers = out.putArray("headers");
        for (Header header : ((org.apache.kafka.connect.header.Headers) record.headers())) {
            headers.addArray().add(header.key()).add(text(HEADERS.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value())));
        }
    }

    static void run(JsonNode in, ObjectNode out) {
        List<Step> chain;
        try {
            chain = chain(in.get("chain"));
        } catch (Exception e) {
            error(out, "config_error", e);
            return;
        }
        boolean replaceNulls = in.get("replace_nulls").asBoolean();
        JsonConverter keys = json(in.get("schemas").asBoolean(), replaceNulls, true), values = json(in.get("schemas").asBoolean(), replaceNulls, false);
        JsonConverter keyWriter = json(true, replaceNulls, true), valueWriter = json(true, replaceNulls, false);
        ArrayNode results = out.putArray("records");
        for (JsonNode one : in.get("records")) {
            ObjectNode result = results.addObject();
            ConnectRecord record;
            try {
                record = read(one, in.get("sink").asBoolean(), keys, values);
            } catch (Exception e) {
                error(result, "read_error", e);
                continue;
            }
            int at = 0;
            try {
                for (; at < chain.size() && record != null; at++) {
                    Step step = chain.get(at);
                    if (step.predicate == null || step.negate ^ step.predicate.test(record)) record = step.transform.apply(record);
                }
            } catch (Exception e) {
                error(result, "error", e);
                result.put("step", at);
                continue;
            }
            if (record == null) {
                result.put("dropped", true);
                continue;
            }
            try {
                write(record, result, keyWriter, valueWriter);
            } catch (Exception e) {
                result.removeAll();
                error(result, "write_error", e);
            }
        }
    }

    // The keys of each class as REST shows them, without their documentation.
    static void configs(BufferedReader lines, PrintStream out) throws Exception {
        for (String name; (name = lines.readLine()) != null; ) {
            Object plugin = Class.forName(name).getConstructor().newInstance();
            ConfigDef definition = plugin instanceof Predicate ? ((Predicate) plugin).config() : ((Transformation) plugin).config();
            ObjectNode shown = JSON.createObjectNode().put("class", name);
            ArrayNode keys = shown.putArray("keys");
            for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
                ObjectNode one = keys.addObject().put("name", key.name).put("type", key.type.name()).put("required", !key.hasDefault());
                one.put("default_value", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
                one.put("importance", key.importance.name()).put("group", key.group).put("order_in_group", key.orderInGroup);
                one.put("width", key.width.name()).put("display_name", key.displayName);
                ArrayNode dependents = one.putArray("dependents");
                key.dependents.forEach(dependents::add);
            }
            out.println(JSON.writeValueAsString(shown));
        }
    }

    public static void main(String[] args) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Locale.setDefault(Locale.ENGLISH);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);
        if (args.length > 0 && args[0].equals("configs")) {
            configs(lines, out);
        } else {
            for (String line; (line = lines.readLine()) != null; ) {
                ObjectNode result = JSON.createObjectNode();
                run(JSON.readTree(line), result);
                out.println(JSON.writeValueAsString(result));
            }
        }
        out.flush();
    }
}
