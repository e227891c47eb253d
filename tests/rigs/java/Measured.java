package heeler.tests;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.converters.LongConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.transforms.Transformation;

/** Plugins that measure themselves (KIP-877). */
public final class Measured {
    private static void count(PluginMetrics metrics, String name, java.util.function.LongSupplier count) {
        metrics.addMetric(metrics.metricName(name, "Records.", new LinkedHashMap<>()), (Gauge<Long>) (config, now) -> count.getAsLong());
    }

    /** Lets all pass. */
    public static class Pass<R extends ConnectRecord<R>> implements Transformation<R>, Monitorable {
        private volatile long passed;

        @Override public void withPluginMetrics(PluginMetrics metrics) {
            count(metrics, "passed", () -> passed);
        }

        @Override public R apply(R record) {
            passed++;
            return record;
        }

        @Override public ConfigDef config() {
            return new ConfigDef().define("which", ConfigDef.Type.STRING, "all", ConfigDef.ValidString.in("all", "some"),
                ConfigDef.Importance.LOW, "Which records.");
        }

        @Override public void configure(Map<String, ?> given) { }

        @Override public void close() { }
    }

    /** As Kafka's. */
    public static class Longs extends LongConverter implements Monitorable {
        private volatile long converted;

        @Override public void withPluginMetrics(PluginMetrics metrics) {
            count(metrics, "converted", () -> converted);
        }

        @Override public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
            converted++;
            return super.fromConnectData(topic, headers, schema, value);
        }
    }
}
