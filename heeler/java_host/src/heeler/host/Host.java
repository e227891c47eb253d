package heeler.host;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;

/**
 * The host of a worker's Java plugins: a process of its own, which the worker starts and which ends with it.
 *
 * Each connection is one thing: questions about plugins, an instance of a connector, or a task. What hangs or fails
 * there is that connection's alone.
 */
public final class Host {
    final Plugins plugins;
    final ConnectMetrics metrics;
    private final byte[] secret;
    private final Set<Session> sessions = ConcurrentHashMap.newKeySet();

    /** Something that has a connection and runs plugin code. */
    interface Session {
        /** Whether this thread is one of its own, or one that its plugin has started. */
        boolean owns(Thread thread);

        /** What the plugin did that ends the host. */
        void blame(Throwable error);
    }

    /** A task. */
    interface TaskSession extends Session {
        /** Heed the worker until it closes the connection. */
        void listen() throws Exception;
    }

    private Host(String pluginPath, String discovery, byte[] secret) {
        // None of these but the plugin path is ever used: the worker has the connections and the converters.
        Map<String, String> settings = new HashMap<>(Map.of(
            "plugin.path", pluginPath, "plugin.discovery", discovery, "bootstrap.servers", "localhost:9",
            "offset.storage.file.filename", "/dev/null",
            "key.converter", "org.apache.kafka.connect.storage.StringConverter",
            "value.converter", "org.apache.kafka.connect.storage.StringConverter"));
        plugins = new Plugins(settings);
        plugins.compareAndSwapWithDelegatingLoader();
        WorkerConfig worker = new StandaloneConfig(settings);
        metrics = new ConnectMetrics("heeler", worker, Time.SYSTEM, "heeler");
        this.secret = secret;
    }

    /** The plugin that a message names, in exactly the version that it names: several may be side by side (KIP-891). */
    PluginDesc<?> plugin(Connection.Message message) {
        String name = message.text("class");
        String version = message.text("version");
        return known().filter(one -> one.className().equals(name) && one.version().equals(version)).findFirst()
            .orElseThrow(() -> new ConnectException("There is no " + name + " of version " + version));
    }

    /** All plugins. */
    Stream<PluginDesc<?>> known() {
        return Stream.<Set<? extends PluginDesc<?>>>of(plugins.sourceConnectors(), plugins.sinkConnectors(), plugins.converters(),
            plugins.headerConverters(), plugins.transformations(), plugins.predicates()).flatMap(Set::stream);
    }

    /** Arguments: the folder of the socket and of the file "secret"; plugin.path; plugin.discovery. */
    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // what plugins print belongs into the log
        Path folder = Path.of(arguments[0]);
        byte[] secret = Files.readAllBytes(folder.resolve("secret"));
        Host host = new Host(arguments[1], arguments[2], secret);
        Runtime.getRuntime().addShutdownHook(new Thread(host::blameWhoExits, "exit"));
        Path bound = folder.resolve("socket.new");
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(UnixDomainSocketAddress.of(bound));
            Files.move(bound, folder.resolve("socket")); // whoever sees it can connect
            while (true) {
                SocketChannel channel = server.accept();
                new Thread(() -> host.serve(new Connection(channel)), "connection").start();
            }
        }
    }

    private void serve(Connection connection) {
        try (connection) {
            Connection.Message hello = connection.read();
            if (hello == null || !MessageDigest.isEqual(secret, hello.text("secret").getBytes())) return;
            Connection.Message first = connection.read();
            if (first == null) return;
            switch (first.op()) {
                case "connector" -> during(new ConnectorSession(this, connection), session -> session.run(first));
                case "source", "sink" -> {
                    TaskSession session;
                    try {
                        session = first.op().equals("sink") ? new SinkSession(this, connection, first)
                            : new SourceSession(this, connection, first);
                    } catch (Throwable e) { // a class that is not there, or cannot be loaded
                        connection.tell(0, failure(e));
                        return;
                    }
                    during(session, TaskSession::listen);
                }
                default -> {
                    Questions questions = new Questions(this);
                    for (Connection.Message m = first; m != null; m = connection.read()) questions.answer(connection, m);
                }
            }
        } catch (IOException e) {
            // The worker has given the connection up, or is gone; then its guard ends this process.
        } catch (Throwable e) {
            e.printStackTrace();
        }
    }

    private interface Run<S> {
        void with(S session) throws Exception;
    }

    private <S extends Session> void during(S session, Run<S> run) throws Exception {
        sessions.add(session);
        try {
            run.with(session);
        } finally {
            sessions.remove(session);
        }
    }

    /** System.exit cannot be refused by newer Javas, so the plugin that calls it is at least told. */
    private void blameWhoExits() {
        Thread.getAllStackTraces().forEach((thread, stack) -> {
            for (StackTraceElement frame : stack) {
                if (!frame.getClassName().equals("java.lang.Runtime") || !frame.getMethodName().matches("exit|halt")) continue;
                SecurityException error = new SecurityException(
                    "the plugin called System.exit, which ends all Java plugins of the worker");
                error.setStackTrace(stack);
                for (Session session : sessions) if (session.owns(thread)) session.blame(error);
                return;
            }
        });
    }

    /** An error as a message. */
    static Map<String, Object> failure(Throwable error) {
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("op", "failed");
        told.put("class", error.getClass().getName());
        told.put("message", String.valueOf(error.getMessage()));
        told.put("retriable", error instanceof RetriableException);
        told.put("trace", trace.toString());
        return told;
    }
}
