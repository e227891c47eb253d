package heeler.tests;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.CumulativeSum;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Counts into a topic, and misbehaves as `mode` says. */
public class ModeSource extends SourceConnector {
    static final String VERSION = version("version.txt");
    private Map<String, String> config;

    /** What the jar says: the same classes stand for several versions. */
    private static String version(String resource) {
        try (java.io.InputStream in = ModeSource.class.getClassLoader().getResourceAsStream(resource)) {
            return new String(in.readAllBytes());
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @Override public String version() {
        return VERSION;
    }

    @Override public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where to.")
            .define("mode", ConfigDef.Type.STRING, "count", ConfigDef.ValidString.in("count", "exit", "hang", "spin", "hang-start", "hang-stop",
                "hang-connector", "throw", "refused", "refused-by-sql", "unavailable", "memory", "leak", "leak-aside", "overflow", "measure", "retry", "raise", "reconfigure", "mixed", "gaps", "untimed", "forget", "transactions"), ConfigDef.Importance.LOW, "What it does.")
            .define("records", ConfigDef.Type.INT, 10, ConfigDef.Importance.LOW, "How many.");
    }

    @Override public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> given) {
        return given.get("mode").equals("transactions") ? ConnectorTransactionBoundaries.SUPPORTED
            : ConnectorTransactionBoundaries.UNSUPPORTED;
    }

    @Override public void start(Map<String, String> given) {
        config = given;
        if (given.get("mode").equals("hang-connector")) Counting.sleep();
        if (given.get("mode").equals("measure")) {
            PluginMetrics metrics = context().pluginMetrics();
            metrics.addMetric(metrics.metricName("open-files", "Files.", new java.util.LinkedHashMap<>(Map.of("kind", "a\"b"))),
                (Gauge<Integer>) (config, now) -> 3);
            metrics.addMetric(metrics.metricName("bad", "It throws.", new java.util.LinkedHashMap<>()), (Gauge<Integer>) (config, now) -> {
                throw new IllegalStateException("no value");
            });
        }
        if (given.containsKey("tell"))
            System.out.println("the connector knows " + context().offsetStorageReader().offset(Map.of("of", "count")));
        if (given.get("mode").equals("raise")) context().raiseError(new ConnectException("raised by the connector"));
        if (given.get("mode").equals("reconfigure") && !new java.io.File(given.get("once")).exists())
            new Thread(() -> {
                try {
                    new java.io.File(given.get("once")).createNewFile();
                } catch (java.io.IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
                context().requestTaskReconfiguration();
            }).start();
    }

    @Override public Class<? extends Task> taskClass() {
        return Counting.class;
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        boolean again = config.containsKey("once") && new java.io.File(config.get("once")).exists();
        List<Map<String, String>> tasks = new ArrayList<>();
        for (int n = 0; n < (again ? most : 1); n++) tasks.add(config);
        return tasks;
    }

    @Override public void stop() { }

    /** The task. Its offsets have a number that no double holds. */
    public static class Counting extends SourceTask {
        private static final List<byte[]> LEAKED = new ArrayList<>();
        private static final long BASE = 9007199254740993L;
        private Map<String, String> config;
        private long next;
        private int confirmed;
        private boolean retried;
        private Sensor polled;

        @Override public String version() {
            return VERSION;
        }

        @Override public void start(Map<String, String> given) {
            config = given;
            System.out.println("printed by the plugin: " + given.get("name") + "\nin two lines");
            if (given.get("mode").equals("hang-start")) sleep();
            PluginMetrics metrics = context.pluginMetrics();
            if (given.get("mode").equals("measure")) {
                polled = metrics.addSensor("polled");
                polled.add(metrics.metricName("polled-total", "Records polled.", new java.util.LinkedHashMap<>()), new CumulativeSum());
                metrics.addMetric(metrics.metricName("state", "", new java.util.LinkedHashMap<>()), (Gauge<String>) (config, now) -> "counting");
            }
            Map<String, Object> known = context.offsetStorageReader().offset(Map.of("of", "count"));
            next = known == null ? 0 : (Long) known.get("next") - BASE;
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            switch (next < 5 ? "count" : config.get("mode")) {
                case "exit" -> System.exit(1);
                case "hang" -> sleep();
                case "spin" -> spin();
                case "throw" -> throw new ConnectException("thrown by poll of " + VERSION);
                case "refused" -> throw new ConnectException("cannot log in", new SaslAuthenticationException("wrong password"));
                case "refused-by-sql" -> throw new ConnectException("cannot log in", new SQLException("wrong password", "28P01"));
                case "unavailable" -> throw new ConnectException("cannot connect", new SQLException("it starts", "57P03"));
                case "leak" -> {
                    while (true) LEAKED.add(new byte[1 << 20]);
                }
                case "overflow" -> deeper(0);
                case "leak-aside" -> {
                    if (new java.io.File(config.get("once")).delete()) aside();
                }
                case "memory" -> throw new OutOfMemoryError("no heap left, says the plugin");
                case "retry" -> {
                    if (!retried) {
                        retried = true;
                        throw new RetriableException("once more");
                    }
                }
                default -> { }
            }
            if (next >= Integer.parseInt(config.get("records"))) {
                Thread.sleep(50);
                return null;
            }
            SourceRecord record = new SourceRecord(Map.of("of", "count"), Map.of("next", BASE + next + 1), config.get("topic"),
                null, Schema.STRING_SCHEMA, "k" + next, Schema.INT64_SCHEMA, next, 1000 + next);
            if (config.get("mode").equals("mixed") && next == 3)
                record = record.newRecord(record.topic(), null, null, "k3", Schema.STRING_SCHEMA, "three", record.timestamp());
            if (config.get("mode").equals("gaps") && next == 5)
                record = record.newRecord(record.topic(), null, Schema.STRING_SCHEMA, "k5", null, null, record.timestamp());
            if (config.get("mode").equals("untimed") && (next == 2 || next == 6))
                record = record.newRecord(record.topic(), null, Schema.STRING_SCHEMA, "k" + next, Schema.INT64_SCHEMA, next,
                    next == 2 ? -1L : -86_400_000L);
            if (config.get("mode").equals("forget"))
                record = new SourceRecord(Map.of("of", next < 9 ? "passing" : "count"), next == 8 ? null : record.sourceOffset(),
                    record.topic(), null, record.keySchema(), record.key(), record.valueSchema(), record.value(), record.timestamp());
            record.headers().addLong("confirmed", confirmed);
            if (config.get("mode").equals("transactions") && next == 7) context.transactionContext().abortTransaction(record);
            else if (config.get("mode").equals("transactions") && next % 5 == 4)
                context.transactionContext().commitTransaction(record);
            next++;
            if (polled != null) polled.record();
            return List.of(record);
        }

        /** There is nothing to read from standard input, and nobody to wait for. */
        private static int deeper(int level) {
            try {
                if (level == 0 && System.in.read() >= 0) throw new ConnectException("standard input has something");
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
            return deeper(level + 1) + 1;
        }

        /** A thread that nobody looks after ends for want of memory. */
        private static void aside() throws InterruptedException {
            Thread thread = new Thread(() -> {
                while (true) LEAKED.add(new byte[1 << 16]);
            }, "aside");
            thread.start();
            thread.join();
        }

        private static void sleep() {
            while (true) {
                try {
                    Thread.sleep(1000);
                } catch (InterruptedException e) {
                    System.err.println("not now"); // as plugins do that swallow it
                }
            }
        }

        private static void spin() {
            while (!Thread.interrupted()) { } // until the task is abandoned
        }

        @Override public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            confirmed++;
            if (config.containsKey("tell") && metadata == null) System.out.println("left out " + record.key());
            else if (config.containsKey("tell"))
                System.out.println("committed " + record.key() + " at " + metadata.topic() + "-" + metadata.partition() + "@"
                    + metadata.offset() + " of " + metadata.timestamp() + ", " + metadata.serializedKeySize() + "+"
                    + metadata.serializedValueSize());
        }

        @Override public void commit() {
            if (config.containsKey("tell")) System.out.println("commit after " + confirmed);
        }

        @Override public void stop() {
            if (config.get("mode").equals("hang-stop")) sleep();
        }
    }
}
