package heeler.host;

import com.fasterxml.jackson.core.Base64Variants;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonParser.NumberType;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
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
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;

/**
 * Reads JSON as Kafka's JsonConverter does, but straight from the parser's tokens to Connect's values, without a tree in
 * between, and without parsing a schema again that recent records had. Anything that is not clearly valid is left to
 * JsonConverter, so that errors and conversions of mismatched types are exactly its own. For one thread only.
 */
final class JsonReader {
    private static final int KEPT = 64; // schemas
    private static final IOException LEFT = new IOException("left to JsonConverter", null) {
        @Override public synchronized Throwable fillInStackTrace() { return this; }
    };
    private final JsonFactory factory = new JsonFactory();
    private final JsonFactory payloads = JsonFactory.builder().disable(JsonFactory.Feature.CHARSET_DETECTION).build();
    private final JsonConverter converter;
    private final boolean enveloped;
    private final boolean replacesNull;
    private final ArrayDeque<Envelope> recent = new ArrayDeque<>(); // the latest first

    /** What comes before the payload of a record, and its schema. */
    private record Envelope(byte[] head, Schema schema) {
        boolean begins(byte[] bytes) {
            return bytes.length > head.length && Arrays.equals(bytes, 0, head.length, head, 0, head.length);
        }
    }

    JsonReader(JsonConverter converter, JsonConverterConfig config) {
        this.converter = converter;
        enveloped = config.schemasEnabled();
        replacesNull = config.replaceNullWithDefault();
    }

    /** The schema and value; null if JsonConverter has to read them. */
    SchemaAndValue read(String topic, byte[] bytes) {
        if (bytes == null || bytes.length == 0) return null;
        try {
            return enveloped ? enveloped(topic, bytes) : new SchemaAndValue(null, root(bytes));
        } catch (IOException | RuntimeException e) { // JsonConverter decides
            return null;
        }
    }

    private Object root(byte[] bytes) throws IOException {
        try (JsonParser parser = factory.createParser(bytes)) {
            return value(parser, parser.nextToken());
        }
    }

    private SchemaAndValue enveloped(String topic, byte[] bytes) throws IOException {
        for (Iterator<Envelope> known = recent.iterator(); known.hasNext();) {
            Envelope one = known.next();
            if (!one.begins(bytes)) continue;
            if (one != recent.peekFirst()) {
                known.remove();
                recent.addFirst(one);
            }
            return new SchemaAndValue(one.schema, payload(bytes, one));
        }
        SchemaAndValue found = converter.toConnectData(topic, bytes);
        int head = found.schema() == null ? 0 : head(bytes);
        if (head > 0) {
            if (recent.size() == KEPT) recent.removeLast();
            recent.addFirst(new Envelope(Arrays.copyOf(bytes, head), found.schema()));
        }
        return found;
    }

    /** The size of {"schema":…,"payload": or 0 if the record does not begin like that. */
    private int head(byte[] bytes) throws IOException {
        try (JsonParser parser = factory.createParser(bytes)) {
            if (parser.nextToken() != JsonToken.START_OBJECT || !"schema".equals(parser.nextFieldName())) return 0;
            parser.nextToken();
            parser.skipChildren();
            if (!"payload".equals(parser.nextFieldName())) return 0;
            parser.nextToken();
            return (int) parser.currentTokenLocation().getByteOffset();
        }
    }

    /** Between the head and the record's last brace there must be exactly one value. */
    private Object payload(byte[] bytes, Envelope envelope) throws IOException {
        int from = envelope.head.length;
        int end = bytes.length - 1;
        if (bytes[end] != '}') throw LEFT;
        try (JsonParser parser = payloads.createParser(bytes, from, end - from)) {
            Object found = value(parser, parser.nextToken(), envelope.schema);
            if (parser.nextToken() != null) throw LEFT;
            return found;
        }
    }

    /** A value without a schema. */
    private static Object value(JsonParser parser, JsonToken token) throws IOException {
        if (token == null) throw LEFT;
        switch (token) {
            case START_OBJECT: {
                Map<String, Object> found = new HashMap<>();
                for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName())
                    found.put(name, value(parser, parser.nextToken()));
                return found;
            }
            case START_ARRAY: {
                List<Object> found = new ArrayList<>();
                for (JsonToken next = parser.nextToken(); next != JsonToken.END_ARRAY; next = parser.nextToken())
                    found.add(value(parser, next));
                return found;
            }
            case VALUE_STRING:
                return parser.getText();
            case VALUE_NUMBER_INT:
                return parser.getNumberType() == NumberType.BIG_INTEGER ? parser.getBigIntegerValue().longValue() : parser.getLongValue();
            case VALUE_NUMBER_FLOAT:
                return parser.getDecimalValue().doubleValue();
            case VALUE_TRUE:
                return true;
            case VALUE_FALSE:
                return false;
            case VALUE_NULL:
                return null;
            default:
                throw LEFT;
        }
    }

    private Object value(JsonParser parser, JsonToken token, Schema schema) throws IOException {
        if (schema == null) return value(parser, token);
        if (token == JsonToken.VALUE_NULL) return missing(schema);
        if (schema.name() != null) {
            switch (schema.name()) {
                case Decimal.LOGICAL_NAME: return Decimal.toLogical(schema, bytes(parser, token));
                case Date.LOGICAL_NAME: return Date.toLogical(schema, integer(parser, token));
                case Time.LOGICAL_NAME: return Time.toLogical(schema, integer(parser, token));
                case Timestamp.LOGICAL_NAME: return Timestamp.toLogical(schema, number(parser, token));
                default: // not one of Connect's logical types: the plain value
            }
        }
        return switch (schema.type()) {
            case INT8 -> (byte) integer(parser, token);
            case INT16 -> (short) integer(parser, token);
            case INT32 -> integer(parser, token);
            case INT64 -> number(parser, token);
            case FLOAT32 -> token == JsonToken.VALUE_NUMBER_INT ? (float) number(parser, token) : decimal(parser, token).floatValue();
            case FLOAT64 -> token == JsonToken.VALUE_NUMBER_INT ? (double) number(parser, token) : decimal(parser, token).doubleValue();
            case BOOLEAN -> {
                if (!token.isBoolean()) throw LEFT;
                yield token == JsonToken.VALUE_TRUE;
            }
            case STRING -> text(parser, token);
            case BYTES -> bytes(parser, token);
            case ARRAY -> array(parser, token, schema);
            case MAP -> map(parser, token, schema);
            case STRUCT -> struct(parser, token, schema);
        };
    }

    /** The value for null, or for a field that is missing. */
    private Object missing(Schema schema) throws IOException {
        if (schema.defaultValue() != null && replacesNull) return schema.defaultValue();
        if (!schema.isOptional()) throw LEFT;
        return null;
    }

    private List<Object> array(JsonParser parser, JsonToken token, Schema schema) throws IOException {
        if (token != JsonToken.START_ARRAY) throw LEFT;
        List<Object> found = new ArrayList<>();
        for (JsonToken next = parser.nextToken(); next != JsonToken.END_ARRAY; next = parser.nextToken())
            found.add(value(parser, next, schema.valueSchema()));
        return found;
    }

    private Map<String, Object> map(JsonParser parser, JsonToken token, Schema schema) throws IOException {
        if (token != JsonToken.START_OBJECT || schema.keySchema().type() != Schema.Type.STRING) throw LEFT;
        Map<String, Object> found = new HashMap<>();
        for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName())
            found.put(name, value(parser, parser.nextToken(), schema.valueSchema()));
        return found;
    }

    private Struct struct(JsonParser parser, JsonToken token, Schema schema) throws IOException {
        if (token != JsonToken.START_OBJECT) throw LEFT;
        Struct found = new Struct(schema);
        boolean[] seen = new boolean[schema.fields().size()];
        for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
            JsonToken next = parser.nextToken();
            Field field = schema.field(name);
            if (field == null) parser.skipChildren();
            else {
                found.put(field, value(parser, next, field.schema()));
                seen[field.index()] = true;
            }
        }
        for (Field field : schema.fields())
            if (!seen[field.index()]) found.put(field, missing(field.schema()));
        return found;
    }

    private static String text(JsonParser parser, JsonToken token) throws IOException {
        if (token != JsonToken.VALUE_STRING) throw LEFT;
        return parser.getText();
    }

    private static byte[] bytes(JsonParser parser, JsonToken token) throws IOException {
        return Base64Variants.getDefaultVariant().decode(text(parser, token));
    }

    private static int integer(JsonParser parser, JsonToken token) throws IOException {
        if (token != JsonToken.VALUE_NUMBER_INT || parser.getNumberType() != NumberType.INT) throw LEFT;
        return parser.getIntValue();
    }

    private static long number(JsonParser parser, JsonToken token) throws IOException {
        if (token != JsonToken.VALUE_NUMBER_INT || parser.getNumberType() == NumberType.BIG_INTEGER) throw LEFT;
        return parser.getLongValue();
    }

    private static java.math.BigDecimal decimal(JsonParser parser, JsonToken token) throws IOException {
        if (token != JsonToken.VALUE_NUMBER_FLOAT) throw LEFT;
        return parser.getDecimalValue();
    }
}
