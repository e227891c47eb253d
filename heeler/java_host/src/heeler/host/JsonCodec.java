package heeler.host;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.ConverterConfig;

/**
 * A converter of keys or values. JsonReader and JsonWriter do most of the work of Kafka's JsonConverter, if it has the
 * version of this runtime; any other converter does its work itself.
 */
final class JsonCodec {
    final Converter converter;
    private JsonReader reader; // null for other converters, as is `writer`
    private JsonWriter writer;

    /** `own`: the converter's configuration, without its prefix. */
    JsonCodec(Converter converter, Map<String, ?> own) {
        this.converter = converter;
        if (converter.getClass() != JsonConverter.class) return;
        Map<String, Object> typed = new HashMap<>(own);
        typed.putIfAbsent(ConverterConfig.TYPE_CONFIG, "value"); // required, but has no effect here
        JsonConverterConfig config = new JsonConverterConfig(typed);
        if (config.schemaContent() != null && config.schemaContent().length > 0) return; // one schema for all records (KIP-1054)
        reader = new JsonReader((JsonConverter) converter, config);
        writer = new JsonWriter((JsonConverter) converter, config);
    }

    SchemaAndValue connect(String topic, Headers headers, byte[] bytes) {
        SchemaAndValue found = reader == null ? null : reader.read(topic, bytes);
        return found != null ? found : converter.toConnectData(topic, headers, bytes);
    }

    byte[] kafka(String topic, Headers headers, Schema schema, Object value) {
        byte[] found = writer == null ? null : writer.written(schema, value);
        return found != null ? found : converter.fromConnectData(topic, headers, schema, value);
    }
}
