package heeler.host;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.rest.errors.BadRequestException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Serves requests about plugins that need no running connector or task. */
final class PluginRequests extends RequestSession {
    private final Host host;

    PluginRequests(Host host, Connection connection) {
        super(connection);
        this.host = host;
    }

    @Override
    String name(Connection.Message first) {
        return first.op() + " of " + first.text("class");
    }

    @Override
    void listen(Connection.Message first) throws IOException {
        try {
            super.listen(first);
        } finally {
            thread.interrupt(); // in case it hangs
        }
    }

    /** The plugin called System.exit, which fails the current request. */
    @Override
    void failed(Throwable error) {
        tell(current, failure(error));
    }

    @Override
    Map<String, ?> responseTo(Connection.Message request) throws Exception {
        if (request.op().equals("plugins")) return Map.of("op", "answer", "plugins", all());
        if (request.op().equals("level")) {
            PluginOutput.level(request.text("logger"), request.text("level"));
            return Map.of("op", "answer");
        }
        if (request.op().equals("closeProviders")) {
            host.providers.close();
            return Map.of("op", "answer");
        }
        PluginDesc<?> named = host.plugin(request);
        loader = named.loader();
        if (request.op().equals("configure") || request.op().equals("get")) return host.providers.responseTo(request, named);
        try (LoaderSwap swap = host.plugins.withClassLoader(named.loader())) {
            Object plugin = Utils.newInstance(named.pluginClass());
            return switch (request.op()) {
                case "config" -> Map.of("op", "answer", "keys", keys(definition(plugin)));
                case "validate" -> Map.of("op", "answer", "values", values(plugin, request.strings("config")));
                case "exactlyOnce" -> response("support", String.valueOf(
                    ((SourceConnector) plugin).exactlyOnceSupport(request.strings("config"))));
                case "boundaries" -> response("support", String.valueOf(
                    ((SourceConnector) plugin).canDefineTransactionBoundaries(request.strings("config"))));
                case "alterOffsets" -> response("altered", plugin instanceof SinkConnector sink
                    ? sink.alterOffsets(request.strings("config"), SinkPositions.offsets(request.content().get("places")))
                    : ((SourceConnector) plugin).alterOffsets(
                        request.strings("config"), CommittedOffsets.maps(request.content().get("pairs"))));
                default -> throw new IllegalArgumentException("unknown request " + request.op());
            };
        }
    }

    private static Map<String, Object> response(String key, Object value) {
        return Map.of("op", "answer", key, value);
    }

    private List<Object> all() {
        return host.known().<Object>map(one -> Map.of("class", one.className(), "kind", one.typeName(),
            "version", one.version(), "location", one.location())).toList();
    }

    private static ConfigDef definition(Object plugin) {
        ConfigDef found;
        if (plugin instanceof ConfigProvider) return new ConfigDef(); // it has none
        if (plugin instanceof Connector connector) found = connector.config();
        else if (plugin instanceof Transformation<?> transformation) found = transformation.config();
        else if (plugin instanceof Predicate<?> predicate) found = predicate.config();
        else if (plugin instanceof HeaderConverter converter) found = converter.config();
        else found = ((Converter) plugin).config();
        if (found == null && (plugin instanceof Converter || plugin instanceof HeaderConverter)) {
            System.err.println("[WARN] " + plugin.getClass().getName() + ".config() returns null; its settings are not validated");
            return new ConfigDef(); // as Kafka Connect does for old converters
        }
        if (found == null) throw mustReturn(plugin, "config() must return a ConfigDef");
        return found;
    }

    /** With the class and the words of Kafka Connect's own error. */
    private static RuntimeException mustReturn(Object plugin, String what) {
        return new BadRequestException(plugin.getClass().getName() + "." + what + " that is not null.");
    }

    private static List<Object> keys(ConfigDef definition) {
        List<Object> found = new ArrayList<>();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("name", key.name);
            fields.put("type", key.type.name());
            fields.put("required", !key.hasDefault());
            fields.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            fields.put("importance", key.importance.name());
            fields.put("doc", key.documentation);
            fields.put("group", key.group);
            fields.put("order", key.orderInGroup);
            fields.put("width", key.width.name());
            fields.put("display", key.displayName);
            fields.put("dependents", key.dependents);
            found.add(fields);
        }
        return found;
    }

    private static List<Object> values(Object plugin, Map<String, String> config) {
        ConfigDef definition = definition(plugin);
        Map<String, ConfigDef.ConfigKey> keys = definition.configKeys();
        Config validated = plugin instanceof Connector connector ? connector.validate(config)
            : new Config(definition.validate(config));
        if (validated == null) throw mustReturn(plugin, "validate() must return a Config");
        List<Object> found = new ArrayList<>();
        for (ConfigValue value : validated.configValues()) {
            ConfigDef.Type type = keys.containsKey(value.name()) ? keys.get(value.name()).type : null;
            ConfigDef.Type item = type == ConfigDef.Type.LIST ? ConfigDef.Type.STRING : type;
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("name", value.name());
            fields.put("value", value.value() instanceof List<?> list && type == ConfigDef.Type.LIST
                ? list.stream().map(one -> text(one, item)).toList() : text(value.value(), type));
            List<String> recommended = new ArrayList<>();
            for (Object one : value.recommendedValues()) recommended.add(text(one, item));
            fields.put("recommended", recommended);
            fields.put("errors", value.errorMessages());
            fields.put("visible", value.visible());
            found.add(fields);
        }
        return found;
    }

    private static String text(Object value, ConfigDef.Type type) {
        return value == null ? null : type == null ? String.valueOf(value) : ConfigDef.convertToString(value, type);
    }
}
