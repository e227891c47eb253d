package heeler.host;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Random values and texts, some of them damaged, through Kafka's JsonConverter and through JsonCodec; prints what differs,
 * then how many cases there were and how many of them the codec decided itself. Arguments: cases, seed.
 */
public final class JsonDifferences {
    private static final String[] TEXTS = {"", "a", "é", "\uD83D\uDE00", "\uD83D", "\uDE00", "\"\\/\b\f\n\r\t\u0000\u001f\u007f", "\u2028", "payload", "schema"};
    private static final String[] TOKENS = {"null", "true", "1", "-0", "0.1", "-0.0", "1e2", "1E400", "1e9999999999", "12345678901",
        "123456789012345678901234567890", "0.1234567890123456789012345", "\"x\"", "\"AAE=\"", "\"A A=\"", "{}", "[]", "[1,null]", "{\"a\":1,\"a\":2}",
        "NaN", "01", "'x'", "\"\\ud83d\"", "\"\\u00e9\"", "", "}", " ", "{\"schema\":null,\"payload\":1}", "[[1],2]", "{\"1\":{}}"};
    private final Random random;

    private JsonDifferences(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] given) {
        JsonDifferences one = new JsonDifferences(Long.parseLong(given[1]));
        int own = 0;
        int cases = Integer.parseInt(given[0]);
        for (int i = 0; i < cases; i++) own += one.run() ? 1 : 0;
        System.out.println(cases + " " + own);
    }

    /** One configuration, several records of one schema. Whether the codec decided one of them itself. */
    private boolean run() {
        Map<String, Object> config = new HashMap<>();
        config.put("schemas.enable", random.nextBoolean());
        config.put("replace.null.with.default", random.nextBoolean());
        config.put("decimal.format", random.nextBoolean() ? "BASE64" : "NUMERIC");
        config.put("converter.type", "value");
        JsonConverter truth = new JsonConverter();
        JsonConverter helped = new JsonConverter();
        truth.configure(config);
        helped.configure(config);
        JsonCodec codec = new JsonCodec(helped, config);
        org.apache.kafka.connect.json.JsonConverterConfig parsed = new org.apache.kafka.connect.json.JsonConverterConfig(config);
        JsonReader reader = new JsonReader(helped, parsed);
        JsonWriter writer = new JsonWriter(helped, parsed);
        Schema schema = random.nextInt(3) == 0 ? null : schema(3);
        boolean own = false;
        for (int i = 0; i < 10; i++) {
            Object value = value(schema, 3);
            String expected = written(() -> truth.fromConnectData("t", schema, value));
            String found = written(() -> codec.kafka("t", null, schema, value));
            if (!expected.equals(found)) differs(config, "write " + schema + " " + value, expected, found);
            own |= writer.written(schema, value) != null;
            byte[] text = text(truth, schema, value);
            String wanted = read(() -> truth.toConnectData("t", text));
            String got = read(() -> codec.connect("t", null, text));
            if (!wanted.equals(got)) differs(config, "read " + (text == null ? null : new String(text, StandardCharsets.UTF_8)), wanted, got);
            own |= reader.read("t", text) != null;
        }
        return own;
    }

    private void differs(Map<String, Object> config, String what, String expected, String found) {
        System.out.println("DIFFERS " + config + " " + what + "\n  expected " + expected + "\n  found    " + found);
    }

    private interface Work<T> { T done(); }

    private static String written(Work<byte[]> work) {
        try {
            byte[] bytes = work.done();
            return bytes == null ? "null" : Arrays.toString(bytes) + new String(bytes, StandardCharsets.UTF_8);
        } catch (Exception e) {
            return "error " + e;
        }
    }

    private static String read(Work<SchemaAndValue> work) {
        try {
            SchemaAndValue found = work.done();
            return schemaText(found.schema()) + " " + show(found.value());
        } catch (Exception e) {
            return "error " + e;
        }
    }

    private static String schemaText(Schema schema) {
        if (schema == null) return "none";
        return schema.type() + ":" + schema.name() + ":" + schema.isOptional() + ":" + show(schema.defaultValue())
            + (schema.type() == Schema.Type.STRUCT ? schema.fields().stream().map(f -> f.name() + "=" + schemaText(f.schema())).toList() : "");
    }

    /** With classes, so that 1 and 1.0, and a byte and an int, differ; maps in their own order. */
    private static String show(Object value) {
        if (value == null) return "null";
        String name = value.getClass().getSimpleName();
        if (value instanceof byte[] bytes) return name + Arrays.toString(bytes);
        if (value instanceof List<?> list) return name + list.stream().map(JsonDifferences::show).toList();
        if (value instanceof Map<?, ?> map) return name + map.entrySet().stream().map(e -> show(e.getKey()) + "=" + show(e.getValue())).toList();
        if (value instanceof Struct struct)
            return name + struct.schema().fields().stream().map(f -> f.name() + "=" + show(struct.getWithoutDefault(f.name()))).toList();
        return name + ":" + value;
    }

    private Schema schema(int depth) {
        int kind = random.nextInt(depth > 0 ? 16 : 13);
        SchemaBuilder made = switch (kind) {
            case 0 -> SchemaBuilder.int8();
            case 1 -> SchemaBuilder.int16();
            case 2 -> SchemaBuilder.int32();
            case 3 -> SchemaBuilder.int64();
            case 4 -> SchemaBuilder.float32();
            case 5 -> SchemaBuilder.float64();
            case 6 -> SchemaBuilder.bool();
            case 7 -> SchemaBuilder.string();
            case 8 -> SchemaBuilder.bytes();
            case 9 -> Decimal.builder(random.nextInt(4));
            case 10 -> org.apache.kafka.connect.data.Date.builder();
            case 11 -> Time.builder();
            case 12 -> Timestamp.builder();
            case 13 -> SchemaBuilder.array(schema(depth - 1));
            case 14 -> SchemaBuilder.map(random.nextInt(4) == 0 ? Schema.INT32_SCHEMA : random.nextInt(6) == 0 ? SchemaBuilder.string().name("n").build() : Schema.STRING_SCHEMA, schema(depth - 1));
            default -> {
                SchemaBuilder fields = SchemaBuilder.struct();
                for (int i = random.nextInt(5); i > 0; i--) fields.field("f" + i, schema(depth - 1));
                yield fields;
            }
        };
        if (random.nextInt(3) == 0) made.optional();
        if (made.name() == null && random.nextInt(5) == 0) made.name("io.debezium.time.Some").version(1).doc("d");
        if (random.nextInt(4) == 0) {
            Object given = value(made, 1);
            try {
                if (given != null) made.defaultValue(given);
            } catch (RuntimeException e) {
                // no valid default
            }
        }
        return made.build();
    }

    private Object value(Schema schema, int depth) {
        if (random.nextInt(8) == 0) return null;
        if (random.nextInt(60) == 0) return schemaless(depth); // often of another type
        if (schema == null) return schemaless(depth);
        if (schema.name() != null) switch (schema.name()) {
            case Decimal.LOGICAL_NAME: return new BigDecimal(BigInteger.valueOf(random.nextInt() * (random.nextBoolean() ? 1L : random.nextLong())),
                random.nextInt(8) == 0 ? 9 : Integer.parseInt(schema.parameters().get("scale")));
            case org.apache.kafka.connect.data.Date.LOGICAL_NAME: return new Date(random.nextInt(20000) * 86_400_000L + (random.nextInt(8) == 0 ? 1 : 0));
            case Time.LOGICAL_NAME: return new Date(random.nextInt(86_400_000) + (random.nextInt(8) == 0 ? 86_400_000L : 0));
            case Timestamp.LOGICAL_NAME: return new Date(random.nextLong() >> random.nextInt(40));
            default: // its plain type
        }
        return switch (schema.type()) {
            case INT8 -> (byte) random.nextInt();
            case INT16 -> (short) random.nextInt();
            case INT32 -> random.nextInt() >> random.nextInt(30);
            case INT64 -> random.nextLong() >> random.nextInt(62);
            case FLOAT32 -> random.nextInt(6) == 0 ? Float.NaN : Float.intBitsToFloat(random.nextInt());
            case FLOAT64 -> random.nextInt(6) == 0 ? Double.NEGATIVE_INFINITY : random.nextBoolean() ? random.nextGaussian() : Double.longBitsToDouble(random.nextLong());
            case BOOLEAN -> random.nextBoolean();
            case STRING -> TEXTS[random.nextInt(TEXTS.length)];
            case BYTES -> random.nextBoolean() ? new byte[] {1, -2, (byte) random.nextInt()} : ByteBuffer.wrap(new byte[] {3, 4});
            case ARRAY -> list(schema.valueSchema(), depth);
            case MAP -> {
                Map<Object, Object> made = new LinkedHashMap<>();
                for (int i = random.nextInt(4); i > 0; i--) made.put(value(schema.keySchema(), depth), value(schema.valueSchema(), depth));
                yield made;
            }
            case STRUCT -> {
                Struct made = new Struct(schema);
                for (Field field : schema.fields()) {
                    try {
                        made.put(field, value(field.schema(), depth));
                    } catch (RuntimeException e) {
                        // another type than the field's
                    }
                }
                yield made;
            }
        };
    }

    private List<Object> list(Schema items, int depth) {
        List<Object> made = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--) made.add(value(items, depth - 1));
        return made;
    }

    private Object schemaless(int depth) {
        return switch (random.nextInt(depth > 0 ? 14 : 11)) {
            case 0 -> (byte) random.nextInt();
            case 1 -> (short) random.nextInt();
            case 2 -> random.nextInt();
            case 3 -> random.nextLong();
            case 4 -> random.nextFloat();
            case 5 -> random.nextDouble();
            case 6 -> random.nextBoolean();
            case 7, 8 -> TEXTS[random.nextInt(TEXTS.length)];
            case 9 -> new byte[] {(byte) random.nextInt(), 0};
            case 10 -> random.nextInt(4) == 0 ? new Date() : random.nextInt(2) == 0 ? new BigDecimal("1.50") : null;
            case 11 -> list(null, depth);
            default -> {
                Map<Object, Object> made = new HashMap<>();
                for (int i = random.nextInt(12); i > 0; i--)
                    made.put(random.nextInt(30) == 0 ? (Object) i : TEXTS[random.nextInt(TEXTS.length)] + i, schemaless(depth - 1));
                yield made;
            }
        };
    }

    /** What JsonConverter writes, sometimes with a token in place of another, or with bytes added, lost or changed. */
    private byte[] text(JsonConverter truth, Schema schema, Object value) {
        byte[] text;
        try {
            text = truth.fromConnectData("t", schema, value);
        } catch (Exception e) {
            text = TOKENS[random.nextInt(TOKENS.length)].getBytes(StandardCharsets.UTF_8);
        }
        if (text == null || random.nextInt(2) == 0) return text;
        String one = new String(text, StandardCharsets.UTF_8);
        return switch (random.nextInt(7)) {
            case 0 -> TOKENS[random.nextInt(TOKENS.length)].getBytes(StandardCharsets.UTF_8);
            case 1 -> (one + TOKENS[random.nextInt(TOKENS.length)]).getBytes(StandardCharsets.UTF_8);
            case 2 -> {
                byte[] changed = text.clone();
                if (changed.length > 0) changed[random.nextInt(changed.length)] = (byte) "{}[]\",:0 x\u0000".charAt(random.nextInt(11));
                yield changed;
            }
            case 3 -> Arrays.copyOf(text, random.nextInt(text.length + 1));
            case 4 -> one.replace(":", " : ").replace(",", " ,\n").getBytes(StandardCharsets.UTF_8);
            default -> { // another token in place of a plain value
                int at = one.lastIndexOf(':', random.nextInt(one.length() + 1));
                int end = at < 0 ? -1 : Math.max(one.indexOf(',', at), one.indexOf('}', at));
                yield (at < 0 || end < 0 ? one : one.substring(0, at + 1) + TOKENS[random.nextInt(TOKENS.length)] + one.substring(end))
                    .getBytes(StandardCharsets.UTF_8);
            }
        };
    }
}
