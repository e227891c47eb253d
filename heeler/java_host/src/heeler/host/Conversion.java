package heeler.host;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.ConnectMetrics;
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
    private final List<Plugin<?>> owned; // converters, with the metrics of those that have some

    Conversion(Host host, ConnectorConfig config, ConnectorTaskId id, ConnectMetrics metrics) {
        Plugin<Converter> keys = metrics.wrap(converter(host, config, "key.converter"), id, true);
        Plugin<Converter> values = metrics.wrap(converter(host, config, "value.converter"), id, false);
        HeaderConverter named = host.plugins.newHeaderConverter(
            config, "header.converter", ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
        Plugin<HeaderConverter> lists = metrics.wrap(named != null ? named : new SimpleHeaderConverter(), id);
        key = keys.get();
        value = values.get();
        headers = lists.get();
        owned = List.of(keys, values, lists);
        stages = config.transformationStages(host.plugins, id, metrics);
    }

    private static Converter converter(Host host, ConnectorConfig config, String name) {
        Converter found = host.plugins.newConverter(config, name, name + ".plugin.version");
        if (found == null) throw new ConnectException("Missing required configuration \"" + name + "\"");
        return found;
    }

    /** How the metrics of a task are told apart. */
    static Map<String, String> tags(ConnectorTaskId id) {
        return Measures.tags("connector", id.connector(), "task", String.valueOf(id.task()));
    }

    /** The record after all transforms; null where one has dropped it. */
    R transform(R record) {
        for (int i = 0; i < stages.size() && record != null; i++) record = stages.get(i).apply(record);
        return record;
    }

    /** The converters; the stages are their chain's to close. */
    @Override
    public void close() {
        for (Plugin<?> one : owned) Utils.closeQuietly(one, "converter");
    }
}
