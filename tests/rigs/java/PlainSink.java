package heeler.tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Writes its records to a file and leaves offsets to Connect, as most sinks do. It does to a record what the configuration says for its value. */
public class PlainSink extends SinkConnector {
    private Map<String, String> config;

    @Override public String version() {
        return "7.3";
    }

    @Override public ConfigDef config() {
        return new ConfigDef().define("notes", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file.");
    }

    @Override public void start(Map<String, String> given) {
        config = given;
    }

    @Override public Class<? extends Task> taskClass() {
        return Plain.class;
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        return java.util.Collections.nCopies(most, config);
    }

    @Override public void stop() { }

    /** The task. */
    public static class Plain extends SinkTask {
        private Map<String, String> config;
        private boolean held;
        private int late; // the calls of preCommit that have confirmed nothing

        @Override public String version() {
            return "7.3";
        }

        @Override public void start(Map<String, String> given) {
            config = given;
        }

        @Override public void put(Collection<SinkRecord> records) {
            if (held && records.isEmpty()) {
                held = false;
                context.resume(context.assignment().toArray(new TopicPartition[0]));
            }
            for (SinkRecord record : records) {
                TopicPartition place = new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
                switch (config.getOrDefault("do." + record.value(), "note")) {
                    case "report" -> context.errantRecordReporter().report(record, new DataException("it is bad"));
                    case "throw" -> throw new ConnectException("thrown by put");
                    case "seek" -> context.offset(place, 0);
                    case "hold" -> {
                        held = true;
                        context.pause(place);
                        note(described(record));
                    }
                    default -> note(described(record));
                }
            }
        }

        @Override public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            return late++ < Integer.parseInt(config.getOrDefault("late", "0")) ? Map.of() : offsets;
        }

        private String described(SinkRecord record) {
            StringBuilder headers = new StringBuilder();
            record.headers().forEach(h -> headers.append(" ").append(h.key()).append("=").append(h.value()));
            return record.topic() + " " + record.kafkaPartition() + "@" + record.kafkaOffset() + " at " + record.timestamp() + ": "
                + record.key() + " " + record.value() + headers
                + (context.assignment().contains(new TopicPartition(record.originalTopic(), record.originalKafkaPartition()))
                    ? "" : " of a partition that is not assigned");
        }

        @Override public void stop() {
            note("stop");
        }

        private void note(String line) {
            try {
                Files.writeString(Path.of(config.get("notes")), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
