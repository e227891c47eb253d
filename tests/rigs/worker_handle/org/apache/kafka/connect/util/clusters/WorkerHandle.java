package org.apache.kafka.connect.util.clusters;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/**
 * In the place of the class of this name in Kafka's tests, which starts a worker of Connect's in the tests' own JVM: this
 * one starts a heeler worker. Everything else of the tests is Kafka's. System properties: heeler.python, heeler.folder
 * (for files), heeler.plugins (a plugin.path).
 */
public class WorkerHandle {
    private static final long READY_MS = 120_000;
    /** Ends the worker when its standard input ends, which it does with this JVM at the latest; and ends with it. */
    private static final String GUARD = "exec 3<&0; \"$@\" </dev/null 3<&- & worker=$!; "
        + "(cat <&3 >/dev/null; kill $worker 2>/dev/null) & exec 3<&-; wait $worker";
    private static int started;
    private final String name;
    private final URI url;
    private final Process process;

    private WorkerHandle(String name, URI url, Process process) {
        this.name = name;
        this.url = url;
        this.process = process;
    }

    public static WorkerHandle start(String name, Map<String, String> given) {
        try (ServerSocket free = new ServerSocket(0)) {
            URI url = URI.create("http://localhost:" + free.getLocalPort() + "/");
            Map<String, String> settings = new HashMap<>(given);
            settings.put("listeners", "http://localhost:" + url.getPort());
            settings.merge("plugin.path", System.getProperty("heeler.plugins"), (theirs, ours) -> ours + "," + theirs);
            settings.put("java.plugins.jvm.options", "-Xmx256M -XX:TieredStopAtLevel=1");
            settings.values().removeIf(value -> value == null);
            Path file = Path.of(System.getProperty("heeler.folder"), name + "-" + started++ + ".properties");
            Properties properties = new Properties();
            properties.putAll(settings);
            try (var out = Files.newOutputStream(file)) {
                properties.store(out, null);
            }
            free.close();
            Process process = new ProcessBuilder("/bin/sh", "-c", GUARD, "guard", System.getProperty("heeler.python"), "-m",
                "heeler", "worker", file.toString()).redirectErrorStream(true).redirectOutput(Path.of(file + ".log").toFile()).start();
            WorkerHandle handle = new WorkerHandle(name, url, process);
            handle.awaitReady(file);
            return handle;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** As with Java's workers, whose herder may end later, one that ends at once is found out by the test. */
    private void awaitReady(Path file) throws IOException {
        long until = System.currentTimeMillis() + READY_MS;
        while (process.isAlive() && !answers()) {
            if (System.currentTimeMillis() > until)
                throw new IOException("the worker did not start: " + Files.readString(Path.of(file + ".log")));
            try {
                Thread.sleep(100);
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
        }
    }

    private boolean answers() {
        try {
            HttpURLConnection asked = (HttpURLConnection) url.toURL().openConnection();
            return asked.getResponseCode() == 200;
        } catch (IOException e) {
            return false;
        }
    }

    public void stop() {
        try {
            process.getOutputStream().close();
            if (process.waitFor(60, TimeUnit.SECONDS)) return;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw new UngracefulShutdownException("the worker " + name + " did not stop in time");
    }

    public URI url() {
        return url;
    }

    public URI adminUrl() {
        return url;
    }

    /** heeler has no such setting: it answers in the time that it needs. */
    public void requestTimeout(long ms) { }

    public void resetRequestTimeout() { }

    @Override
    public String toString() {
        return name + " at " + url;
    }
}
