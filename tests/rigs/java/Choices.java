package heeler.tests;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef.Width;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Only validated, never run: a definition in which keys depend on each other, and a `validate` that does as `check` says. */
public class Choices extends SourceConnector {
    private static final String OWN = "Of the plugin: ";

    /** What can be chosen for each engine; nothing is to be seen of a key that the engine does not have. */
    private record ByEngine(Map<Object, List<Object>> values) implements ConfigDef.Recommender {
        @Override public List<Object> validValues(String name, Map<String, Object> parsed) {
            if ("broken".equals(parsed.get("engine"))) throw new ConfigException("engine", "broken", "nothing is recommended for " + name);
            return visible(name, parsed) ? values.get(parsed.get("engine")) : List.of();
        }

        @Override public boolean visible(String name, Map<String, Object> parsed) {
            return parsed.get("engine") != null && values.containsKey(parsed.get("engine"));
        }
    }

    private static ConfigDef definition() {
        return new ConfigDef()
            .define("engine", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, ConfigDef.ValidString.in("sql", "files", "broken"), Importance.HIGH,
                OWN + "an engine.", "Where", 1, Width.SHORT, "The engine", List.of("table", "port", "columns", "nowhere"),
                new ConfigDef.Recommender() {
                    @Override public List<Object> validValues(String name, Map<String, Object> parsed) {
                        return List.of("sql", "files");
                    }

                    @Override public boolean visible(String name, Map<String, Object> parsed) {
                        return true;
                    }
                })
            .define("table", Type.STRING, null, Importance.MEDIUM, OWN + "a table.", "Where", 2, Width.LONG, "The table",
                new ByEngine(Map.of("sql", List.of("orders", "order, items"))))
            .define("port", Type.INT, 5432, ConfigDef.Range.between(1, 65535), Importance.LOW, OWN + "a port.", "Where", 3, Width.NONE,
                "", List.of(), new ByEngine(Map.of("sql", List.of(5432, 5433))))
            .define("columns", Type.LIST, List.of("id", "time"), Importance.LOW, OWN + "columns.", "What", 1, Width.MEDIUM, "Columns",
                List.of("ratio"), new ByEngine(Map.of("sql", List.of("id", "time", "text"), "files", List.of("line"))))
            .define("ratio", Type.DOUBLE, 0.5, Importance.LOW, OWN + "a part.", "What", 2, Width.SHORT, "Part",
                new ByEngine(Map.of("sql", List.of(0.25, 1e-7, 1e21))))
            .define("most", Type.LONG, Long.MAX_VALUE, Importance.LOW, OWN + "a limit.", "What", 4, Width.SHORT, "Limit",
                new ByEngine(Map.of("sql", List.of(9007199254740993L))))
            .define("few", Type.SHORT, "7", Importance.LOW, OWN + "another limit.", "What", 3, Width.SHORT, "Lower limit")
            .define("strict", Type.BOOLEAN, true, Importance.MEDIUM, OWN + "whether.", "What", 5, Width.SHORT, "Strict",
                new ByEngine(Map.of("sql", List.of(true, false), "files", List.of())))
            .define("password", Type.PASSWORD, null, Importance.HIGH, OWN + "a secret.", "Who", 1, Width.LONG, "Password",
                new ByEngine(Map.of("sql", List.of(new org.apache.kafka.common.config.types.Password("secret")))))
            .define("pin", Type.PASSWORD, "0000", Importance.HIGH, OWN + "a secret with a default.")
            .define("codec", Type.CLASS, String.class, Importance.LOW, OWN + "a class.", "Who", 2, Width.LONG, "Codec",
                new ByEngine(Map.of("sql", List.of(String.class, Choices.class))))
            .define("ungrouped", Type.STRING, "", Importance.LOW, OWN + "not in a group.")
            .define("check", Type.STRING, "nothing", Importance.LOW, OWN + "what validate does.");
    }

    @Override public ConfigDef config() {
        return definition();
    }

    @Override public Config validate(Map<String, String> given) {
        Config config = super.validate(given);
        String check = given.getOrDefault("check", "nothing");
        List<ConfigValue> values = new ArrayList<>(config.configValues());
        switch (check) {
            case "errors" -> {
                for (ConfigValue value : values) {
                    if (value.name().equals("table")) value.addErrorMessage("table: there is no such table");
                    if (value.name().equals("table")) value.addErrorMessage("table: nor anything like it");
                    if (value.name().equals("port") && value.errorMessages().isEmpty()) value.addErrorMessage("port: nobody listens");
                }
            }
            case "more" -> {
                values.add(new ConfigValue("host", "localhost", new ArrayList<>(List.of("localhost", "elsewhere")), new ArrayList<>(List.of("host: is down"))));
                values.add(new ConfigValue("hosts", List.of("a", "b"), List.of(List.of("a"), 1), List.of()));
                ConfigValue hidden = new ConfigValue("hidden", null, new ArrayList<>(), List.of());
                hidden.visible(false);
                values.add(hidden);
            }
            case "replace" -> {
                for (ConfigValue value : values) {
                    if (value.name().equals("table")) value.value("orders");
                    if (value.name().equals("table")) value.recommendedValues(new ArrayList<>(List.of("orders")));
                    if (value.name().equals("port")) value.visible(false);
                }
            }
            case "twice" -> values.add(new ConfigValue("table", "again", List.of(), new ArrayList<>(List.of("table: once more"))));
            case "connects" -> values.add(new ConfigValue("tasks.max", "1", List.of(), new ArrayList<>(List.of("tasks.max: must be 1"))));
            case "fewer" -> values.removeIf(value -> value.name().equals("port"));
            case "null" -> {
                return null;
            }
            case "config-exception" -> throw new ConfigException("table", "orders", "validate refuses it");
            case "exception" -> throw new IllegalStateException("validate is broken");
            default -> { }
        }
        return new Config(values);
    }

    @Override public String version() {
        return "1.0";
    }

    @Override public void start(Map<String, String> given) { }

    @Override public Class<? extends Task> taskClass() {
        return ModeSource.Counting.class;
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        return List.of();
    }

    @Override public void stop() { }

    /** One without a definition. */
    public static class Undefined extends Choices {
        @Override public ConfigDef config() {
            return null;
        }
    }

    /** One whose definition cannot be had. */
    public static class Failing extends Choices {
        @Override public ConfigDef config() {
            throw new IllegalStateException("config is broken");
        }
    }

    private static ConfigDef link() {
        return new ConfigDef()
            .define("engine", Type.STRING, "sql", Importance.HIGH, OWN + "an engine.", "Its own group", 2, Width.SHORT, "Engine",
                List.of("table"))
            .define("table", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, new ConfigDef.NonEmptyString(), Importance.LOW, OWN + "a table.",
                "Its own group", 1, Width.LONG, "Table", new ByEngine(Map.of("sql", List.of("orders"))));
    }

    /** A transformation whose keys depend on each other. */
    public static class Link<R extends ConnectRecord<R>> implements Transformation<R> {
        @Override public R apply(R record) {
            return record;
        }

        @Override public ConfigDef config() {
            return link();
        }

        @Override public void configure(Map<String, ?> given) { }

        @Override public void close() { }
    }

    /** A predicate whose keys depend on each other. */
    public static class Test<R extends ConnectRecord<R>> implements Predicate<R> {
        @Override public boolean test(R record) {
            return true;
        }

        @Override public ConfigDef config() {
            return link();
        }

        @Override public void configure(Map<String, ?> given) { }

        @Override public void close() { }
    }

    /** A converter whose keys depend on each other. */
    public static class Coder implements Converter {
        @Override public ConfigDef config() {
            return link();
        }

        @Override public void configure(Map<String, ?> given, boolean key) { }

        @Override public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return null;
        }

        @Override public SchemaAndValue toConnectData(String topic, byte[] value) {
            return SchemaAndValue.NULL;
        }
    }
}
