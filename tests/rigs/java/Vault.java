package heeler.tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;

/** Gives what it was configured with, as far as it is asked for; its paths say what goes wrong. */
public class Vault implements ConfigProvider, Monitorable {
    private Map<String, ?> settings;
    private volatile long reads;

    @Override public void withPluginMetrics(PluginMetrics metrics) {
        metrics.addMetric(metrics.metricName("reads", "Questions.", new LinkedHashMap<>()), (Gauge<Long>) (config, now) -> reads);
    }

    private void note(String line) {
        try {
            Files.writeString(Path.of((String) settings.get("journal")), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override public void configure(Map<String, ?> given) {
        settings = given;
        note("configured by " + Thread.currentThread().getContextClassLoader().getClass().getSimpleName());
    }

    @Override public ConfigData get(String path) {
        throw new UnsupportedOperationException("somebody wants to know everything");
    }

    @Override public ConfigData get(String path, Set<String> keys) {
        note("get " + path);
        reads++;
        switch (path) {
            case "sealed" -> {
                if (StuckSource.told().equals("sealed")) throw new ConfigException("the vault is sealed");
            }
            case "broken" -> throw new IllegalStateException("the vault is broken");
            case "nothing" -> {
                return null;
            }
            case "stuck" -> StuckSource.at("get");
            default -> { }
        }
        Map<String, String> found = new HashMap<>();
        for (String key : keys) found.put(key, (String) settings.get(key)); // null where there is none
        return path.equals("brief") ? new ConfigData(found, 500L) : new ConfigData(found);
    }

    @Override public void close() {
        note("closed");
    }
}
