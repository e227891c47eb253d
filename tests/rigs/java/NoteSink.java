package heeler.tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Notes in a file what happens to its task, and does what the records say. */
public class NoteSink extends SinkConnector {
    private Map<String, String> config;

    @Override public String version() {
        return "7.2";
    }

    @Override public ConfigDef config() {
        return new ConfigDef()
            .define("notes", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file.")
            .define("whole", ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.LOW, "Note records with all that they have.")
            .define("behind", ConfigDef.Type.INT, 0, ConfigDef.Importance.LOW, "So many records are not to be committed.");
    }

    @Override public void start(Map<String, String> given) {
        config = given;
        context(); // casts to a sink's
    }

    @Override public Class<? extends Task> taskClass() {
        return Noting.class;
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        return java.util.Collections.nCopies(most, config);
    }

    @Override public boolean alterOffsets(Map<String, String> given, Map<TopicPartition, Long> offsets) {
        if (offsets.containsValue(999L)) throw new ConnectException("999 is not an offset of mine");
        return true;
    }

    @Override public void stop() { }

    /** The task. What a record says is done when it comes for the first time. */
    public static class Noting extends SinkTask {
        private static final Set<String> SEEN = new HashSet<>(); // of all tasks, for as long as the host lives
        private Path notes;
        private long behind;
        private String metadata;
        private boolean whole;
        private boolean hangsInClose;

        @Override public String version() {
            return "7.2";
        }

        @Override public void start(Map<String, String> given) {
            notes = Path.of(given.get("notes"));
            metadata = given.getOrDefault("metadata", "");
            whole = Boolean.parseBoolean(given.get("whole"));
            behind = Long.parseLong(given.getOrDefault("behind", "0"));
            note("start " + context.configs().get("notes").equals(given.get("notes")));
        }

        @Override public void open(Collection<TopicPartition> partitions) {
            note("open " + new TreeSet<>(partitions.stream().map(TopicPartition::partition).toList())
                + " " + context.assignment().containsAll(partitions));
        }

        @Override public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                if (whole) note(described(record));
                String[] said = String.valueOf(record.value()).split(" ");
                note("put " + record.kafkaPartition() + " " + record.kafkaOffset() + " " + said[0]);
                if (!SEEN.add(notes + " " + record.kafkaPartition() + " " + record.kafkaOffset())) continue;
                TopicPartition other = said.length < 2 ? null
                    : new TopicPartition(record.topic(), Integer.parseInt(said[1]));
                switch (said[0]) {
                    case "rewind" -> context.offset(new TopicPartition(record.topic(), record.kafkaPartition()), 0);
                    case "again" -> {
                        context.timeout(200);
                        throw new RetriableException("the same once more");
                    }
                    case "hold" -> context.pause(other);
                    case "release" -> context.resume(other);
                    case "commit" -> context.requestCommit();
                    case "group" -> note("group " + consumer().groupMetadata().groupId() + " "
                        + (consumer().groupMetadata().generationId() > 0) + " " + consumer().assignment().size());
                    case "bad" -> context.errantRecordReporter().report(record, new DataException("it is bad"));
                    case "flood" -> { // many bad records, reported by another thread while put is to be repeated
                        new Thread(() -> {
                            for (int n = 0; n < 8; n++) context.errantRecordReporter().report(record, new DataException("it is bad"));
                        }).start();
                        throw new RetriableException("the same once more");
                    }
                    case "throw" -> throw new ConnectException("thrown by put");
                    case "hang" -> sleep();
                    case "hang-close" -> hangsInClose = true;
                    default -> { }
                }
            }
        }

        private static String described(SinkRecord record) {
            StringBuilder headers = new StringBuilder();
            record.headers().forEach(h -> headers.append(" ").append(h.key()).append("=").append(h.value()).append(type(h.schema())));
            return record.topic() + " " + record.kafkaPartition() + "@" + record.kafkaOffset() + " of "
                + record.originalTopic() + " at " + record.timestamp() + ": " + record.key() + type(record.keySchema()) + " "
                + record.value() + type(record.valueSchema()) + headers;
        }

        private static String type(Schema schema) {
            return schema == null ? "" : "/" + schema.type() + (schema.name() == null ? "" : "/" + schema.name());
        }

        /** As connectors do that commit offsets in a transaction of their own. */
        private org.apache.kafka.clients.consumer.Consumer<?, ?> consumer() {
            try {
                java.lang.reflect.Field field = Class.forName("org.apache.kafka.connect.runtime.WorkerSinkTaskContext")
                    .getDeclaredField("consumer");
                field.setAccessible(true);
                return (org.apache.kafka.clients.consumer.Consumer<?, ?>) field.get(context);
            } catch (ReflectiveOperationException e) {
                throw new ConnectException(e);
            }
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

        @Override public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            if (offsets.isEmpty()) note("preCommit without partitions");
            Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
            offsets.forEach((place, at) -> {
                if (at.offset() - behind > 0) found.put(place, new OffsetAndMetadata(at.offset() - behind, metadata));
            });
            return found;
        }

        @Override public void close(Collection<TopicPartition> partitions) {
            if (hangsInClose) sleep();
            note("close " + new TreeSet<>(partitions.stream().map(TopicPartition::partition).toList()));
        }

        @Override public void stop() {
            note("stop");
        }

        private void note(String line) {
            try {
                Files.writeString(notes, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
