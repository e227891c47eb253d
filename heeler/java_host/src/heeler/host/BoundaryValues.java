package heeler.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Keys and values at the cut of a chain between worker and host: JSON as JsonConverter writes it, with a separate schema;
 * null has no JSON. They are read here, not by JsonConverter, which reads NaN as 0. For one thread only.
 */
final class BoundaryValues {
    private static final int KEPT = 1000; // schemas
    private static final Map<String, ?> CONFIG = Map.of("schemas.enable", "false", "replace.null.with.default", "false");
    private final JsonConverter json = new JsonConverter();
    private final JsonCodec codec;
    private final Map<String, Schema> schemas = new HashMap<>();
    private final Map<Schema, String> texts = new IdentityHashMap<>();
    private final Map<Schema, Boolean> defaults = new IdentityHashMap<>(); // whether they have any

    BoundaryValues() {
        json.configure(CONFIG, false);
        codec = new JsonCodec(json, CONFIG);
    }

    /** A value as JSON. A required field that is not set has its default: null, which means none elsewhere, is not valid there. */
    byte[] written(Schema schema, Object value) {
        if (value == null) return null;
        return codec.kafka("", null, schema, schema != null && defaults(schema) ? filled(schema, value) : value);
    }

    private boolean defaults(Schema schema) {
        if (defaults.size() >= KEPT) defaults.clear();
        return defaults.computeIfAbsent(schema, BoundaryValues::hasDefaults);
    }

    /** Whether some value within those of a schema may be missing although it is required. */
    private static boolean hasDefaults(Schema schema) {
        return !schema.isOptional() && schema.defaultValue() != null || switch (schema.type()) {
            case ARRAY -> hasDefaults(schema.valueSchema());
            case MAP -> hasDefaults(schema.keySchema()) || hasDefaults(schema.valueSchema());
            case STRUCT -> schema.fields().stream().anyMatch(field -> hasDefaults(field.schema()));
            default -> false;
        };
    }

    private static Object filled(Schema schema, Object value) {
        if (value == null) return schema.isOptional() ? null : schema.defaultValue();
        if (value instanceof Struct struct && struct.schema().equals(schema)) {
            Struct found = new Struct(schema);
            for (Field field : schema.fields()) {
                Object one = filled(field.schema(), struct.getWithoutDefault(field.name()));
                if (one != null) found.put(field, one);
            }
            return found;
        }
        if (value instanceof Collection<?> items && schema.type() == Schema.Type.ARRAY)
            return new ArrayList<Object>(items.stream().map(item -> filled(schema.valueSchema(), item)).toList());
        if (value instanceof Map<?, ?> map && schema.type() == Schema.Type.MAP) {
            Map<Object, Object> found = new LinkedHashMap<>();
            map.forEach((key, one) -> found.put(filled(schema.keySchema(), key), filled(schema.valueSchema(), one)));
            return found;
        }
        return value;
    }

    /** The schema as JSON; null if there is none. */
    String text(Schema schema) {
        if (schema == null) return null;
        if (texts.size() >= KEPT) texts.clear();
        return texts.computeIfAbsent(schema, one -> json.asJsonSchema(one).toString());
    }

    /** The value of a JSON text; its schema, as JSON too, may be null. */
    SchemaAndValue read(String schemaText, byte[] bytes) {
        if (bytes == null) return SchemaAndValue.NULL;
        if (schemaText == null) return codec.connect("", null, bytes);
        try {
            Schema schema = schema(schemaText);
            return new SchemaAndValue(schema, value(schema, Connection.MAPPER.readTree(bytes)));
        } catch (IOException e) {
            throw new DataException("The worker sent a value that is not JSON", e);
        }
    }

    /** The schema that `text` has returned as JSON. */
    Schema schema(String text) throws IOException {
        if (schemas.size() >= KEPT) schemas.clear();
        Schema schema = schemas.get(text);
        if (schema == null) {
            schema = json.asConnectSchema(Connection.MAPPER.readTree(text));
            schemas.put(text, schema);
        }
        return schema;
    }

    private static Object value(Schema schema, JsonNode node) throws IOException {
        if (node == null || node.isNull()) return null;
        if (schema.name() != null) {
            switch (schema.name()) {
                case Decimal.LOGICAL_NAME: return Decimal.toLogical(schema, node.binaryValue());
                case Date.LOGICAL_NAME: return Date.toLogical(schema, node.intValue());
                case Time.LOGICAL_NAME: return Time.toLogical(schema, node.intValue());
                case Timestamp.LOGICAL_NAME: return Timestamp.toLogical(schema, node.longValue());
                default: // not one of Connect's logical types: the plain value
            }
        }
        return switch (schema.type()) {
            case INT8 -> (byte) node.intValue();
            case INT16 -> (short) node.intValue();
            case INT32 -> node.intValue();
            case INT64 -> node.longValue();
            case FLOAT32 -> node.isTextual() ? Float.parseFloat(node.textValue()) : node.floatValue();
            case FLOAT64 -> node.isTextual() ? Double.parseDouble(node.textValue()) : node.doubleValue();
            case BOOLEAN -> node.booleanValue();
            case STRING -> node.textValue();
            case BYTES -> node.binaryValue();
            case ARRAY -> {
                List<Object> found = new ArrayList<>(node.size());
                for (JsonNode item : node) found.add(value(schema.valueSchema(), item));
                yield found;
            }
            case MAP -> map(schema, node);
            case STRUCT -> {
                Struct found = new Struct(schema);
                for (Field field : schema.fields()) found.put(field, value(field.schema(), node.get(field.name())));
                yield found;
            }
        };
    }

    /** From an object if keys are strings, else from an array of pairs. */
    private static Map<Object, Object> map(Schema schema, JsonNode node) throws IOException {
        Map<Object, Object> found = new HashMap<>();
        if (node.isObject())
            for (Map.Entry<String, JsonNode> one : node.properties()) found.put(one.getKey(), value(schema.valueSchema(), one.getValue()));
        else
            for (JsonNode pair : node) found.put(value(schema.keySchema(), pair.get(0)), value(schema.valueSchema(), pair.get(1)));
        return found;
    }
}
