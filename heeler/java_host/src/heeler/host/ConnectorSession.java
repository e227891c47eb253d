package heeler.host;

import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.sink.SinkConnectorContext;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** One instance of a connector. */
final class ConnectorSession extends RequestSession {
    private final Host host;
    private Connector connector;
    private MetricsSender measures;

    ConnectorSession(Host host, Connection connection) {
        super(connection);
        this.host = host;
    }

    @Override
    String name(Connection.Message first) {
        return "connector " + first.text("name");
    }

    /** Stops a connector that was started. */
    @Override
    void end() {
        try {
            stop();
        } catch (Throwable e) { // plugin code
            e.printStackTrace();
        }
    }

    @Override
    Map<String, ?> responseTo(Connection.Message m) throws Exception {
        if (m.op().equals("connector")) return start(m);
        try (LoaderSwap swap = host.plugins.withClassLoader(loader)) {
            return switch (m.op()) {
                case "taskConfigs" -> Map.of("op", "answer", "configs", connector.taskConfigs(m.number("maxTasks")));
                case "stop" -> {
                    stop();
                    yield Map.of("op", "answer");
                }
                default -> throw new IllegalArgumentException("unknown request " + m.op());
            };
        }
    }

    private Map<String, ?> start(Connection.Message m) throws Exception {
        PluginDesc<?> named = host.plugin(m);
        loader = named.loader();
        try (LoaderSwap swap = host.plugins.withClassLoader(loader)) {
            Connector instance = (Connector) Utils.newInstance(named.pluginClass());
            String name = m.text("name");
            measures = new MetricsSender(host, "connector " + name, MetricsSender.tags("connector", name), this::event);
            instance.initialize(instance instanceof SourceConnector ? new SourceContext() : new SinkContext());
            connector = instance; // set before its start, which may fail and leave something to be stopped
            instance.start(m.strings("config"));
            return Map.of("op", "answer", "taskClass", instance.taskClass().getName());
        }
    }

    private void stop() {
        Connector running = connector;
        connector = null;
        if (running == null) return;
        try (LoaderSwap swap = host.plugins.withClassLoader(loader)) {
            running.stop();
        } finally {
            measures.close();
        }
    }

    private abstract class Context implements ConnectorContext {
        @Override public void requestTaskReconfiguration() {
            event(Map.of("op", "reconfigure"));
        }

        @Override public void raiseError(Exception e) {
            failed(e);
        }

        @Override public PluginMetrics pluginMetrics() {
            return measures.plugin;
        }
    }

    private final class SinkContext extends Context implements SinkConnectorContext { }

    private final class SourceContext extends Context implements SourceConnectorContext {
        private final CommittedOffsets offsets = new CommittedOffsets(connection);

        @Override public OffsetStorageReader offsetStorageReader() {
            return offsets;
        }
    }
}
