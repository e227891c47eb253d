// The JSON Schemas of Connect schemas: one JSON object a line in, one a line out. Confluent's JsonSchemaData is not on Maven
// Central; `of` describes a schema to everit's library as it does, and everit and Jackson write the text that is registered.
// `schema`: as in JsonConverter's envelopes. `numeric`, `additional`, `sums`: the converter's options.
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;
import org.everit.json.schema.*;
import org.json.*;

public class Driver {
    static final String OWN = "io.confluent.connect.json";
    static final ObjectMapper TEXTS = new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
        .setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));
    static boolean numeric, additional, sums;
    static JsonConverter payloads;

    static boolean isUnion(Schema schema) {
        return (OWN + ".OneOf").equals(schema.name()) || has(schema, "org.apache.kafka.connect.data.Union");
    }

    static boolean has(Schema schema, String parameter) {
        return schema.parameters() != null && schema.parameters().containsKey(parameter);
    }

    static org.everit.json.schema.Schema of(Schema schema, Integer index, boolean plain) throws Exception {
        Map<String, Object> more = new HashMap<>();
        org.everit.json.schema.Schema.Builder<?> builder = bare(schema, more);
        if (schema.type() == Schema.Type.STRUCT && isUnion(schema)) {
            CombinedSchema.Builder choices = CombinedSchema.builder().criterion(CombinedSchema.ONE_CRITERION);
            if (schema.isOptional() && !plain) choices.subschema(NullSchema.INSTANCE);
            for (Field field : schema.fields()) choices.subschema(of(field.schema(), field.index(), true));
            return indexed(choices, index);
        }
        if (schema.name() != null) builder.title(schema.name());
        if (schema.version() != null) more.put("connect.version", schema.version());
        if (schema.doc() != null) builder.description(schema.doc());
        Map<String, String> parameters = new HashMap<>();
        if (schema.parameters() != null)
            schema.parameters().forEach((key, value) -> { if (!key.startsWith(OWN)) parameters.put(key, value); });
        if (!parameters.isEmpty()) more.put("connect.parameters", parameters);
        if (schema.defaultValue() != null) builder.defaultValue(plainValue(schema));
        if (plain || !schema.isOptional()) {
            if (index != null) more.put("connect.index", index);
            return builder.unprocessedProperties(more).build();
        }
        CombinedSchema.Builder choices = CombinedSchema.builder().criterion(CombinedSchema.ONE_CRITERION);
        choices.subschema(NullSchema.INSTANCE).subschema(builder.unprocessedProperties(more).build());
        return indexed(choices, index);
    }

    static org.everit.json.schema.Schema indexed(CombinedSchema.Builder choices, Integer index) {
        if (index != null) choices.unprocessedProperties(new HashMap<>(Map.of("connect.index", index)));
        return choices.build();
    }

    static org.everit.json.schema.Schema.Builder<?> bare(Schema schema, Map<String, Object> more) throws Exception {
        switch (schema.type()) {
            case BOOLEAN: return BooleanSchema.builder();
            case STRING: return text(schema);
            case BYTES:
                more.put("connect.type", "bytes");
                return numeric && Decimal.LOGICAL_NAME.equals(schema.name()) ? NumberSchema.builder() : StringSchema.builder();
            case ARRAY: return ArraySchema.builder().allItemSchema(of(schema.valueSchema(), null, false));
            case MAP:
                more.put("connect.type", "map");
                if (schema.keySchema().type() == Schema.Type.STRING && !schema.keySchema().isOptional())
                    return ObjectSchema.builder().schemaOfAdditionalProperties(of(schema.valueSchema(), null, false));
                return ArraySchema.builder().allItemSchema(ObjectSchema.builder()
                    .addPropertySchema("key", of(schema.keySchema(), 0, false))
                    .addPropertySchema("value", of(schema.valueSchema(), 1, false)).build());
            case STRUCT:
                ObjectSchema.Builder object = ObjectSchema.builder();
                if (!isUnion(schema))
                    for (Field field : schema.fields()) object.addPropertySchema(field.name(), of(field.schema(), field.index(), false));
                if (!additional) object.additionalProperties(false);
                return object;
            default:
                more.put("connect.type", schema.type().getName());
                boolean integer = schema.type() != Schema.Type.FLOAT32 && schema.type() != Schema.Type.FLOAT64;
                return NumberSchema.builder().requiresInteger(integer);
        }
    }

    static org.everit.json.schema.Schema.Builder<?> text(Schema schema) {
        String sum = "org.apache.kafka.connect.data.Enum", word = (sums ? sum : OWN + ".Enum") + ".";
        if (!has(schema, sum) && !has(schema, OWN + ".Enum")) return StringSchema.builder();
        EnumSchema.Builder symbols = EnumSchema.builder();
        for (String key : schema.parameters().keySet())
            if (key.startsWith(word)) {
                String symbol = key.substring(word.length());
                symbols.possibleValue(symbol.equals("<NULL>") ? null : symbol);
            }
        return symbols;
    }

    static Object plainValue(Schema schema) throws Exception {
        return plain(TEXTS.readTree(payloads.fromConnectData("t", schema, schema.defaultValue())));
    }

    static Object plain(JsonNode node) {
        if (node.isObject()) {
            JSONObject object = new JSONObject();
            node.fields().forEachRemaining(one -> object.put(one.getKey(), plain(one.getValue())));
            return object;
        }
        if (node.isArray()) {
            JSONArray array = new JSONArray();
            node.forEach(one -> array.put(plain(one)));
            return array;
        }
        return node.isNull() ? JSONObject.NULL : node.isNumber() ? node.numberValue() : node.isBoolean() ? node.booleanValue() : node.asText();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode given = TEXTS.readTree(line);
            numeric = given.get("numeric").asBoolean();
            additional = given.get("additional").asBoolean();
            sums = given.get("sums").asBoolean();
            payloads = new JsonConverter();
            payloads.configure(Map.of("schemas.enable", "false", "decimal.format", numeric ? "NUMERIC" : "BASE64"), false);
            ObjectNode answer = TEXTS.createObjectNode();
            try {
                Schema schema = payloads.asConnectSchema(new ObjectMapper().readTree(TEXTS.writeValueAsString(given.get("schema"))));
                answer.put("text", TEXTS.writeValueAsString(TEXTS.readTree(of(schema, null, false).toString())));
            } catch (Exception e) {
                answer.put("error", e.toString());
            }
            out.println(TEXTS.writeValueAsString(answer));
        }
        out.flush();
    }
}
