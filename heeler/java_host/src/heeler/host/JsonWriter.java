package heeler.host;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.json.DecimalFormat;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.json.JsonSerializer;

/**
 * Writes JSON as Kafka's JsonConverter does, but straight from Connect's values, without a tree in between, and each schema's
 * text once. Anything that is not clearly valid is left to JsonConverter, so that errors are its own. For one thread only.
 */
final class JsonWriter {
    private static final int KEPT = 1000; // schemas
    private static final byte[] PAYLOAD = ",\"payload\":".getBytes(StandardCharsets.UTF_8);
    private static final byte[] SCHEMA = "{\"schema\":".getBytes(StandardCharsets.UTF_8);
    private static final DataLeft LEFT = new DataLeft();
    private final JsonFactory factory = new JsonFactory().setRootValueSeparator(null);
    private final JsonConverter converter;
    private final JsonSerializer schemas = new JsonSerializer();
    private final boolean enveloped;
    private final boolean replacesNull;
    private final boolean numeric;
    private final Map<Schema, byte[]> texts = new IdentityHashMap<>();
    private final ByteArrayOutputStream out = new ByteArrayOutputStream(1024);
    private JsonGenerator json; // null after an error

    /** Thrown for what JsonConverter has to write. */
    private static final class DataLeft extends RuntimeException {
        DataLeft() { super("left to JsonConverter", null, false, false); }
    }

    JsonWriter(JsonConverter converter, JsonConverterConfig config) {
        this.converter = converter;
        enveloped = config.schemasEnabled();
        replacesNull = config.replaceNullWithDefault();
        numeric = config.decimalFormat() == DecimalFormat.NUMERIC;
    }

    /** The JSON of a value; null if JsonConverter has to write it. */
    byte[] written(Schema schema, Object value) {
        if (value == null) return null;
        out.reset();
        try {
            if (json == null) json = factory.createGenerator(out);
            if (enveloped) {
                out.write(SCHEMA);
                out.write(text(schema));
                out.write(PAYLOAD);
            }
            write(schema, value);
            json.flush();
            if (enveloped) out.write('}');
            return out.toByteArray();
        } catch (IOException | RuntimeException e) { // JsonConverter decides
            json = null;
            return null;
        }
    }

    private byte[] text(Schema schema) {
        byte[] known = texts.get(schema);
        if (known != null) return known;
        byte[] text = schema == null ? "null".getBytes(StandardCharsets.UTF_8) : schemas.serialize("", converter.asJsonSchema(schema));
        if (schema instanceof SchemaBuilder) return text; // it may change
        if (texts.size() >= KEPT) texts.clear();
        texts.put(schema, text);
        return text;
    }

    private void write(Schema schema, Object value) throws IOException {
        if (value == null) missing(schema);
        else if (schema == null) write(null, ConnectSchema.schemaType(value.getClass()), value);
        else if (schema.name() == null) write(schema, schema.type(), value);
        else switch (schema.name()) {
            case Decimal.LOGICAL_NAME -> {
                if (numeric) json.writeNumber((BigDecimal) value);
                else json.writeBinary(Decimal.fromLogical(schema, (BigDecimal) value));
            }
            case Date.LOGICAL_NAME -> json.writeNumber(Date.fromLogical(schema, (java.util.Date) value));
            case Time.LOGICAL_NAME -> json.writeNumber(Time.fromLogical(schema, (java.util.Date) value));
            case Timestamp.LOGICAL_NAME -> json.writeNumber(Timestamp.fromLogical(schema, (java.util.Date) value));
            default -> write(schema, schema.type(), value);
        }
    }

    private void missing(Schema schema) throws IOException {
        if (schema != null && schema.defaultValue() != null && replacesNull) write(schema, schema.defaultValue());
        else if (schema == null || schema.isOptional()) json.writeNull();
        else throw LEFT;
    }

    private void write(Schema schema, Schema.Type type, Object value) throws IOException {
        if (type == null) throw LEFT;
        switch (type) {
            case INT8 -> json.writeNumber((Byte) value);
            case INT16 -> json.writeNumber((Short) value);
            case INT32 -> json.writeNumber((Integer) value);
            case INT64 -> json.writeNumber((Long) value);
            case FLOAT32 -> json.writeNumber((Float) value);
            case FLOAT64 -> json.writeNumber((Double) value);
            case BOOLEAN -> json.writeBoolean((Boolean) value);
            case STRING -> json.writeString(((CharSequence) value).toString());
            case BYTES -> json.writeBinary(value instanceof ByteBuffer some ? some.array() : (byte[]) value);
            case ARRAY -> {
                Schema items = schema == null ? null : schema.valueSchema();
                json.writeStartArray();
                for (Object item : (Collection<?>) value) write(items, item);
                json.writeEndArray();
            }
            case MAP -> map(schema, (Map<?, ?>) value);
            case STRUCT -> struct(schema, (Struct) value);
        }
    }

    private void map(Schema schema, Map<?, ?> value) throws IOException {
        if (schema != null && (schema.keySchema().type() != Schema.Type.STRING || schema.keySchema().name() != null)) throw LEFT;
        Schema items = schema == null ? null : schema.valueSchema();
        json.writeStartObject();
        for (Map.Entry<?, ?> one : value.entrySet()) {
            if (!(one.getKey() instanceof String name)) throw LEFT;
            json.writeFieldName(name);
            write(items, one.getValue());
        }
        json.writeEndObject();
    }

    private void struct(Schema schema, Struct value) throws IOException {
        if (schema == null || !value.schema().equals(schema)) throw LEFT;
        json.writeStartObject();
        for (Field field : schema.fields()) {
            json.writeFieldName(field.name());
            write(field.schema(), value.getWithoutDefault(field.name()));
        }
        json.writeEndObject();
    }
}
