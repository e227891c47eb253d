package heeler.tests;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.converters.LongConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.storage.StringConverter;
import org.apache.kafka.connect.transforms.Transformation;

/** Plugins that measure themselves (KIP-877). */
public final class Measured {
    private static void count(PluginMetrics metrics, String name, java.util.function.LongSupplier count) {
        metrics.addMetric(metrics.metricName(name, "Records.", new LinkedHashMap<>()), (Gauge<Long>) (config, now) -> count.getAsLong());
    }

    /** Lets all pass. */
    public static class Pass<R extends ConnectRecord<R>> implements Transformation<R>, Monitorable, Versioned {
        private volatile long passed;

        @Override public void withPluginMetrics(PluginMetrics metrics) {
            count(metrics, "passed", () -> passed);
            count(metrics, "taken-total", () -> passed);
        }

        @Override public String version() {
            return ModeSource.VERSION;
        }

        @Override public R apply(R record) {
            passed++;
            return record;
        }

        @Override public ConfigDef config() {
            return new ConfigDef().define("which", ConfigDef.Type.STRING, "all", ConfigDef.ValidString.in("all", "some"),
                ConfigDef.Importance.LOW, "Which records.");
        }

        @Override public void configure(Map<String, ?> given) {
            System.out.println("a transform of version " + version());
        }

        @Override public void close() { }
    }

    /** Drops what ends with 3, cannot do what ends with 4, sends all else to another topic. */
    public static class Picky<R extends ConnectRecord<R>> extends Pass<R> {
        @Override public R apply(R record) {
            String text = String.valueOf(record.value());
            if (text.endsWith("3")) return null;
            if (text.endsWith("4")) throw new DataException("it ends with 4");
            R found = record.newRecord(record.topic() + "-j", record.kafkaPartition(), record.keySchema(), record.key(),
                record.valueSchema(), record.value(), record.timestamp());
            found.headers().addString("java", "yes");
            return found;
        }
    }

    /** Capitals, which end with anything but 2. */
    public static class Capitals extends StringConverter {
        @Override public byte[] fromConnectData(String topic, Schema schema, Object value) {
            if (value.toString().endsWith("2")) throw new DataException("it ends with 2");
            return super.fromConnectData(topic, schema, value.toString().toUpperCase());
        }
    }

    /** As Kafka's. */
    public static class Longs extends LongConverter implements Monitorable {
        private volatile long converted;

        @Override public String version() {
            return ModeSource.VERSION;
        }

        @Override public void configure(Map<String, ?> given, boolean isKey) {
            System.out.println("a converter of version " + version());
            super.configure(given, isKey);
        }

        @Override public void withPluginMetrics(PluginMetrics metrics) {
            count(metrics, "converted", () -> converted);
        }

        @Override public byte[] fromConnectData(String topic, Headers headers, Schema schema, Object value) {
            converted++;
            return super.fromConnectData(topic, headers, schema, value);
        }
    }
}
