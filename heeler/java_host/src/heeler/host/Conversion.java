package heeler.host;

import java.util.List;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationStage;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** A task's converters and transforms. The worker has put its own converters where the connector names none. */
final class Conversion<R extends ConnectRecord<R>> implements AutoCloseable {
    final Converter key;
    final Converter value;
    final HeaderConverter headers;
    final List<TransformationStage<R>> stages;

    Conversion(Host host, ConnectorConfig config, ConnectorTaskId id) {
        key = converter(host, config, "key.converter");
        value = converter(host, config, "value.converter");
        HeaderConverter named = host.plugins.newHeaderConverter(
            config, "header.converter", ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
        headers = named != null ? named : new SimpleHeaderConverter();
        stages = config.transformationStages(host.plugins, id, host.metrics);
    }

    private static Converter converter(Host host, ConnectorConfig config, String name) {
        Converter found = host.plugins.newConverter(config, name, name + ".plugin.version");
        if (found == null) throw new ConnectException("Missing required configuration \"" + name + "\"");
        return found;
    }

    /** The record after all transforms; null where one has dropped it. */
    R transform(R record) {
        for (int i = 0; i < stages.size() && record != null; i++) record = stages.get(i).apply(record);
        return record;
    }

    @Override
    public void close() {
        for (TransformationStage<R> stage : stages) stage.close();
    }
}
