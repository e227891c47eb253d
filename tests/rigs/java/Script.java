package heeler.tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.Converter;

/** Polls what its configuration says, and notes the calls of its task in a file. */
public class Script extends SourceConnector {
    private Map<String, String> config;

    @Override public String version() {
        return "1";
    }

    @Override public ConfigDef config() {
        return new ConfigDef();
    }

    @Override public void start(Map<String, String> given) {
        config = given;
    }

    @Override public Class<? extends Task> taskClass() {
        return Scripted.class;
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        return List.of(config);
    }

    @Override public void stop() { }

    /**
     * The task. `polls`: the polls, separated by "|". Each has words: VALUE@OFFSET is a record, #N@OFFSET one of N bytes, struct@OFFSET one
     * whose fields are not set, loop@OFFSET one whose value contains itself; "commit" and "abort" end the
     * transaction, "retry" and "throw" throw, "null" returns null, "gate" is as below, "spin" is an endless loop that ends as "gate" does, "deadlock" never ends. An offset "unknown" is of a type that no store has. `throws`: the methods that throw, the first time they are called. `commits`: what commit() does,
     * "transaction" (it commits the transaction), "read" (it reads and notes the offset), "hang", "wait" (until it is interrupted) or
     * "gate" (until the file of the notes with ".open" at the end of its name exists). `starts`: "gate" as well. "shout" throws an exception with a
     * message of 5 MB. `metrics`: how many it has, each with a long tag.
     */
    public static class Scripted extends SourceTask {
        private static final Schema WITHIN = SchemaBuilder.struct().field("v", SchemaBuilder.int32().defaultValue(5).build())
            .field("o", SchemaBuilder.int32().optional().defaultValue(7).build()).build();
        private static final Schema STRUCT = SchemaBuilder.struct().field("list", SchemaBuilder.array(WITHIN).build())
            .field("text", SchemaBuilder.string().defaultValue("none").build()).build();
        private final ArrayDeque<String> polls = new ArrayDeque<>();
        private final List<String> throwing = new ArrayList<>();
        private Path notes;
        private String commits;

        @Override public String version() {
            return "1";
        }

        @Override public void start(Map<String, String> given) {
            polls.addAll(List.of(given.get("polls").split("\\|")));
            throwing.addAll(List.of(given.getOrDefault("throws", "").split(" ")));
            notes = Path.of(given.get("notes"));
            commits = given.getOrDefault("commits", "");
            if (given.getOrDefault("starts", "").equals("gate")) awaitGate(notes);
            for (int n = 0; n < Integer.parseInt(given.getOrDefault("metrics", "0")); n++)
                context.pluginMetrics().addMetric(context.pluginMetrics().metricName("m" + n, "", new LinkedHashMap<>(Map.of("of", "x".repeat(5000)))),
                    (Gauge<Integer>) (config, now) -> 1);
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            if (polls.isEmpty()) {
                Thread.sleep(20);
                return null;
            }
            called("poll", "");
            List<SourceRecord> records = new ArrayList<>();
            for (String word : polls.poll().split(" ")) {
                TransactionContext transaction = context.transactionContext();
                switch (word) {
                    case "commit" -> transaction.commitTransaction();
                    case "abort" -> transaction.abortTransaction();
                    case "retry" -> throw new RetriableException("told to retry");
                    case "throw" -> throw new ConnectException("told to throw");
                    case "shout" -> throw new ConnectException("told to shout" + "!".repeat(5_000_000));
                    case "null" -> records = null;
                    case "gate" -> awaitGate(notes);
                    case "spin" -> spin();
                    case "deadlock" -> deadlock();
                    default -> {
                        String[] parts = word.split("@");
                        if (parts[0].startsWith("#")) parts[0] = "x".repeat(Integer.parseInt(parts[0].substring(1)));
                        Struct struct = new Struct(STRUCT).put("list", List.of(new Struct(WITHIN)));
                        boolean plain = !parts[0].equals("struct");
                        List<Object> loop = new ArrayList<>();
                        loop.add(Map.of("within", loop));
                        Object offset = parts[1].equals("unknown") ? new Object() : Long.valueOf(parts[1]);
                        if (parts[0].equals("loop")) records.add(new SourceRecord(Map.of("p", 1), Map.of("o", offset), "t", null, loop));
                        else records.add(new SourceRecord(Map.of("p", 1), Map.of("o", offset), "t",
                            plain ? Schema.STRING_SCHEMA : STRUCT, plain ? parts[0] : struct));
                    }
                }
            }
            return records;
        }

        @Override public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            called("commitRecord", " " + record.value());
        }

        @Override public void commit() throws InterruptedException {
            called("commit", "");
            switch (commits) {
                case "transaction" -> context.transactionContext().commitTransaction();
                case "read" -> note(notes, String.valueOf(context.offsetStorageReader().offset(Map.of("p", 1))));
                case "hang" -> sleep();
                case "wait" -> Thread.sleep(Long.MAX_VALUE);
                case "gate" -> awaitGate(notes);
                default -> { }
            }
        }

        private void spin() {
            while (!Files.exists(Path.of(notes + ".open"))) { }
        }

        private void deadlock() throws InterruptedException {
            Object other = new Object();
            synchronized (this) {
                CountDownLatch held = new CountDownLatch(1);
                new Thread(() -> {
                    synchronized (other) {
                        held.countDown();
                        synchronized (this) { }
                    }
                }, "the other one").start();
                held.await();
                synchronized (other) { }
            }
        }

        @Override public void stop() {
            called("stop", "");
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

        private void called(String method, String more) {
            note(notes, method + more);
            if (throwing.remove(method)) throw new ConnectException("told to throw in " + method);
        }
    }

    private static void awaitGate(Path notes) {
        try {
            while (!Files.exists(Path.of(notes + ".open"))) Thread.sleep(10);
        } catch (InterruptedException e) {
            throw new ConnectException("interrupted", e);
        }
    }

    private static void note(Path notes, String line) {
        try {
            Files.writeString(notes, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Converts strings, except "bad", and "down", which might be converted later, and is noted; "stuck" as "gate" above. */
    public static class Strict implements Converter {
        private Path notes;

        @Override public void configure(Map<String, ?> configs, boolean isKey) {
            notes = Path.of(String.valueOf(configs.get("notes")));
        }

        @Override public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return checked((String) value).getBytes();
        }

        @Override public SchemaAndValue toConnectData(String topic, byte[] value) {
            return new SchemaAndValue(Schema.STRING_SCHEMA, checked(new String(value)));
        }

        private String checked(String value) {
            if (value.equals("bad")) throw new DataException("told to be bad");
            if (value.equals("stuck")) awaitGate(notes);
            if (!value.equals("down")) return value;
            note(notes, value);
            throw new RetriableException("told to be down");
        }
    }
}
