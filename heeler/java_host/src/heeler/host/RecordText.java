package heeler.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * A source's record, before its transforms, as a JSON text: what a dead letter has of it for a replay. Values with a schema are
 * as at the cut of a chain. Each value without one names its Java type, because JSON does not distinguish an int from a long. For
 * one thread only.
 */
final class RecordText {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private final BoundaryValues values = new BoundaryValues();

    /** The text. Throws DataException for a value that Kafka Connect does not know, or that does not fit its schema. */
    String written(SourceRecord record) {
        ObjectNode found = NODES.objectNode();
        found.set("from", node(record.sourcePartition()));
        found.set("at", node(record.sourceOffset()));
        found.put("topic", record.topic());
        found.put("partition", record.kafkaPartition());
        found.put("timestamp", record.timestamp());
        found.set("key", typed(record.keySchema(), record.key()));
        found.set("value", typed(record.valueSchema(), record.value()));
        ArrayNode headers = found.putArray("headers");
        for (Header one : record.headers()) headers.addArray().add(one.key()).add(typed(one.schema(), one.value()));
        return found.toString();
    }

    /** The record of a text. Throws exceptions of any kind if it is not one that `written` has returned. */
    SourceRecord read(String text) throws IOException {
        JsonNode found = Connection.MAPPER.readTree(text);
        SchemaAndValue key = typed(found.get("key"));
        SchemaAndValue value = typed(found.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode pair : found.get("headers")) headers.add(pair.get(0).textValue(), typed(pair.get(1)));
        JsonNode partition = found.get("partition");
        JsonNode timestamp = found.get("timestamp");
        return new SourceRecord(map(found.get("from")), map(found.get("at")), found.get("topic").textValue(),
            partition.isNull() ? null : partition.intValue(), key.schema(), key.value(), value.schema(), value.value(),
            timestamp.isNull() ? null : timestamp.longValue(), headers);
    }

    @SuppressWarnings("unchecked")
    private Map<String, ?> map(JsonNode node) throws IOException {
        return (Map<String, ?>) object(node);
    }

    /** A value and its schema: [value], or [JSON, schema], both as texts. */
    private JsonNode typed(Schema schema, Object value) {
        if (schema == null) return NODES.arrayNode().add(node(value));
        byte[] json = values.written(schema, value);
        return NODES.arrayNode().add(json == null ? null : new String(json, StandardCharsets.UTF_8)).add(values.text(schema));
    }

    private SchemaAndValue typed(JsonNode node) throws IOException {
        JsonNode first = node.get(0);
        if (node.size() == 1) return new SchemaAndValue(null, object(first));
        String schema = node.get(1).textValue();
        if (first.isNull()) return new SchemaAndValue(values.schema(schema), null);
        return values.read(schema, first.textValue().getBytes(StandardCharsets.UTF_8));
    }

    /** A value without a schema: JSON's null, true, false or text, or an array of its type and what it contains. */
    private JsonNode node(Object value) {
        if (value == null) return NODES.nullNode();
        if (value instanceof String one) return NODES.textNode(one);
        if (value instanceof Boolean one) return NODES.booleanNode(one);
        ArrayNode found = NODES.arrayNode();
        if (value instanceof Byte one) return found.add("int8").add((int) one);
        if (value instanceof Short one) return found.add("int16").add((int) one);
        if (value instanceof Integer one) return found.add("int32").add(one);
        if (value instanceof Long one) return found.add("int64").add(one);
        if (value instanceof Float one) return found.add("float32").add(one.toString());
        if (value instanceof Double one) return found.add("float64").add(one.toString());
        if (value instanceof byte[] one) return found.add("bytes").add(one);
        if (value instanceof ByteBuffer one) {
            byte[] bytes = new byte[one.remaining()];
            one.duplicate().get(bytes);
            return found.add("buffer").add(bytes);
        }
        if (value instanceof BigDecimal one) return found.add("decimal").add(one.unscaledValue().toByteArray()).add(one.scale());
        if (value instanceof Date one) return found.add("date").add(one.getTime());
        if (value instanceof Struct one) return found.add("struct").add(typed(one.schema(), one));
        if (value instanceof List<?> items) {
            found.add("list");
            for (Object item : items) found.add(node(item));
            return found;
        }
        if (value instanceof Map<?, ?> map) {
            found.add("map");
            map.forEach((key, one) -> found.addArray().add(node(key)).add(node(one)));
            return found;
        }
        throw new DataException("A record with a value of " + value.getClass() + " cannot be kept for a replay");
    }

    private Object object(JsonNode node) throws IOException {
        if (node.isNull()) return null;
        if (node.isTextual()) return node.textValue();
        if (node.isBoolean()) return node.booleanValue();
        JsonNode content = node.get(1);
        return switch (node.get(0).textValue()) {
            case "int8" -> (byte) content.intValue();
            case "int16" -> (short) content.intValue();
            case "int32" -> content.intValue();
            case "int64" -> content.longValue();
            case "float32" -> Float.parseFloat(content.textValue());
            case "float64" -> Double.parseDouble(content.textValue());
            case "bytes" -> content.binaryValue();
            case "buffer" -> ByteBuffer.wrap(content.binaryValue());
            case "decimal" -> new BigDecimal(new BigInteger(content.binaryValue()), node.get(2).intValue());
            case "date" -> new Date(content.longValue());
            case "struct" -> typed(content).value();
            case "list" -> {
                List<Object> found = new ArrayList<>();
                for (int i = 1; i < node.size(); i++) found.add(object(node.get(i)));
                yield found;
            }
            case "map" -> {
                Map<Object, Object> found = new LinkedHashMap<>();
                for (int i = 1; i < node.size(); i++) found.put(object(node.get(i).get(0)), object(node.get(i).get(1)));
                yield found;
            }
            default -> throw new DataException("unknown type " + node.get(0));
        };
    }
}
