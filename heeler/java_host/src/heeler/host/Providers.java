package heeler.host;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;

/**
 * The config providers in the worker's properties (KIP-297). Each host creates and configures its own when it is first used;
 * if that fails, the next use tries again.
 */
final class Providers {
    private final Host host;
    private final Map<String, FutureTask<Made>> made = new ConcurrentHashMap<>();

    private record Made(ConfigProvider provider, ClassLoader loader, MetricsSender measures) { }

    Providers(Host host) {
        this.host = host;
    }

    /** The message has the provider's name, class and settings; "get" also a path, and keys or null for all. */
    Map<String, ?> responseTo(Connection.Message request, PluginDesc<?> named) throws Exception {
        Made found = configured(request, named);
        Map<String, Object> fields = new LinkedHashMap<>(Map.of("op", "answer"));
        if (request.op().equals("configure")) return fields;
        String path = request.text("path");
        List<?> keys = (List<?>) request.content().get("keys");
        try (LoaderSwap swap = host.plugins.withClassLoader(found.loader())) {
            ConfigData data = keys == null ? found.provider().get(path) : found.provider().get(path, texts(keys));
            if (data == null || data.data() == null)
                throw new ConnectException(named.className() + ".get() returned null");
            fields.put("data", new HashMap<>(data.data()));
            fields.put("ttl", data.ttl());
        }
        return fields;
    }

    private static Set<String> texts(List<?> keys) {
        Set<String> found = new HashSet<>();
        for (Object key : keys) found.add((String) key);
        return found;
    }

    /** The configured provider; waits if another thread is configuring it. */
    private Made configured(Connection.Message request, PluginDesc<?> named) throws Exception {
        String id = request.text("provider");
        FutureTask<Made> mine = new FutureTask<>(() -> make(request, named));
        FutureTask<Made> task = made.computeIfAbsent(id, absent -> mine);
        if (task == mine) task.run();
        try {
            return task.get();
        } catch (ExecutionException e) {
            made.remove(id, task);
            if (e.getCause() instanceof Error error) throw error;
            throw (Exception) e.getCause();
        }
    }

    private Made make(Connection.Message request, PluginDesc<?> named) throws Exception {
        try (LoaderSwap swap = host.plugins.withClassLoader(named.loader())) {
            ConfigProvider provider = (ConfigProvider) Utils.newInstance(named.pluginClass());
            provider.configure(request.strings("settings"));
            MetricsSender measures = null;
            if (provider instanceof Monitorable monitorable) {
                String name = request.text("provider");
                measures = new MetricsSender(host, "config provider " + name, MetricsSender.tags("provider", name),
                    fields -> tell(name, fields));
                monitorable.withPluginMetrics(measures.plugin);
            }
            return new Made(provider, named.loader(), measures);
        }
    }

    private void tell(String name, Map<String, ?> fields) {
        Map<String, Object> named = new LinkedHashMap<>(fields);
        named.put("provider", name);
        try {
            host.pulse.join().tell(0, named);
        } catch (IOException e) {
            // The worker is gone.
        }
    }

    /** Closes all providers, as the worker stops. */
    void close() {
        for (FutureTask<Made> task : made.values()) {
            if (!task.isDone()) continue; // its `configure` hangs
            try {
                Made found = task.get();
                try (LoaderSwap swap = host.plugins.withClassLoader(found.loader())) {
                    found.provider().close();
                }
                if (found.measures() != null) found.measures().close();
            } catch (Throwable e) { // plugin code
                e.printStackTrace();
            }
        }
        made.clear();
    }
}
