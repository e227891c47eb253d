package heeler.tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/** Hangs in the method that a file names (-Dheeler.stuck=FILE), for as long as it names it. */
public class StuckSource extends SourceConnector {
    private Map<String, String> config;

    public StuckSource() {
        at("constructor");
    }

    static String told() {
        try {
            String file = System.getProperty("heeler.stuck");
            return file == null ? "" : Files.readString(Path.of(file));
        } catch (IOException e) {
            return "";
        }
    }

    static void at(String method) {
        while (told().equals(method)) {
            try {
                Thread.sleep(50);
            } catch (InterruptedException e) {
                System.err.println("not now"); // as plugins do that swallow it
            }
        }
    }

    @Override public String version() {
        return "1.0";
    }

    @Override public ConfigDef config() {
        at("config");
        return new ConfigDef().define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where to.");
    }

    @Override public Config validate(Map<String, String> given) {
        at("validate");
        if (told().equals("exit")) System.exit(1);
        return super.validate(given);
    }

    @Override public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        at("exactlyOnceSupport");
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override public boolean alterOffsets(Map<String, String> given, Map<Map<String, ?>, Map<String, ?>> offsets) {
        at("alterOffsets");
        return true;
    }

    @Override public void start(Map<String, String> given) {
        config = given;
    }

    @Override public Class<? extends Task> taskClass() {
        return ModeSource.Counting.class;
    }

    @Override public List<Map<String, String>> taskConfigs(int most) {
        at("taskConfigs");
        return List.of(config);
    }

    @Override public void stop() { }
}
