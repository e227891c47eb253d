package heeler.host;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginDiscoveryMode;
import org.apache.kafka.connect.runtime.isolation.PluginScanResult;
import org.apache.kafka.connect.runtime.isolation.PluginSource;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;

/**
 * The host of a worker's Java plugins: a process that the worker starts, and that ends with the worker.
 *
 * Each connection has one purpose: requests about plugins, an instance of a connector, or a task. If that hangs or
 * fails, the other connections are not affected.
 */
public final class Host {
    private static byte[] spare = new byte[1 << 20]; // released so that the first error of a full heap can be reported
    private static byte[] last = new byte[1 << 20]; // released so that the process can end itself
    private static final Map<String, String> HERE = Map.of("op", "answer");
    private static final int FULL = 3; // the exit code of a host whose heap is full
    private static final double FULL_FROM = 0.9;
    private static final int MOST_TEXT = 200_000; // characters of an error's message, and of its stack trace
    private static final int CAUSES = 100; // of an error; they may form a cycle
    private static final long HUNG_MS = 2000; // a thread hangs if it still runs so long after its connection was closed
    final Found plugins;
    final Providers providers = new Providers(this);
    final CompletableFuture<Connection> pulse = new CompletableFuture<>(); // the connection that stays open as long as the host lives
    private final WorkerConfig worker;
    private final byte[] secret;
    private final int mostHung;
    private final AtomicInteger hung = new AtomicInteger();
    private volatile Map<String, String> retiring; // sent to all sessions when the host is to be replaced
    private volatile ServerSocketChannel server;
    private final Set<Session> sessions = ConcurrentHashMap.newKeySet();

    private Host(String pluginPath, String discovery, int mostHung, byte[] secret) {
        // Only the plugin settings are ever used: connections and converters are the worker's. Connect requires the others.
        Map<String, String> settings = new HashMap<>(Map.of(
            "plugin.path", pluginPath, "plugin.discovery", discovery, "bootstrap.servers", "localhost:9",
            "offset.storage.file.filename", "/dev/null",
            "key.converter", "org.apache.kafka.connect.storage.StringConverter",
            "value.converter", "org.apache.kafka.connect.storage.StringConverter"));
        plugins = new Found(settings);
        plugins.compareAndSwapWithDelegatingLoader();
        worker = new StandaloneConfig(settings);
        this.mostHung = mostHung;
        this.secret = secret;
    }

    /** New metrics for one connector or task: an earlier one of the same name may hang and still have its own. */
    ConnectMetrics metrics() {
        return new ConnectMetrics("heeler", worker, Time.SYSTEM, "heeler");
    }

    /** The plugin of the class and exact version in a message: there may be several versions (KIP-891). */
    PluginDesc<?> plugin(Connection.Message message) {
        String name = message.text("class");
        String version = message.text("version");
        return known().filter(one -> one.className().equals(name) && one.version().equals(version)).findFirst()
            .orElseThrow(() -> new ConnectException("There is no version " + version + " of " + name));
    }

    /** All plugins. */
    Stream<PluginDesc<?>> known() {
        return Stream.<Set<? extends PluginDesc<?>>>of(plugins.sourceConnectors(), plugins.sinkConnectors(), plugins.converters(),
            plugins.headerConverters(), plugins.transformations(), plugins.predicates(), plugins.all.configProviders()).flatMap(Set::stream);
    }

    /** Kafka's Plugins, which does not make the config providers that it has found public. */
    static final class Found extends Plugins {
        PluginScanResult all; // set by the constructor of Plugins

        Found(Map<String, String> settings) {
            super(settings);
        }

        @Override public PluginScanResult initLoaders(Set<PluginSource> sources, PluginDiscoveryMode mode) {
            return all = super.initLoaders(sources, mode);
        }
    }

    /**
     * Arguments: the folder with the file "secret", where the socket is created; plugin.path; plugin.discovery; how many hung
     * threads make the worker replace this host.
     */
    public static void main(String[] arguments) throws Exception {
        System.setErr(new PluginOutput(System.err));
        System.setOut(System.err); // what plugins print goes to the log
        endIfFull(new Exception()); // loads its classes now, as that takes memory
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            endIfFull(error);
            System.err.println("[ERROR] Thread '" + thread.getName() + "' ended with an error");
            error.printStackTrace();
        });
        Path folder = Path.of(arguments[0]);
        byte[] secret = Files.readAllBytes(folder.resolve("secret"));
        Host host = new Host(arguments[1], arguments[2], Integer.parseInt(arguments[3]), secret);
        Runtime.getRuntime().addShutdownHook(new Thread(host::failSessionsOfExitingThread, "exit"));
        Path bound = folder.resolve("socket.new");
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            host.server = server;
            server.bind(UnixDomainSocketAddress.of(bound));
            Files.move(bound, folder.resolve("socket")); // where it exists, it accepts connections
            while (true) {
                SocketChannel channel = server.accept();
                new Thread(() -> host.serve(new Connection(channel)), "connection").start();
            }
        } catch (ClosedChannelException e) {
            // The host is being replaced: sessions may continue until the worker ends it.
        }
    }

    private void serve(Connection connection) {
        try (connection) {
            Connection.Message hello = connection.read();
            if (hello == null || !MessageDigest.isEqual(secret, hello.text("secret").getBytes())) return;
            Connection.Message first = connection.read();
            if (first == null) return;
            PluginOutput.setOwner(first);
            switch (first.op()) {
                case "connector" -> serve(new ConnectorSession(this, connection), first);
                case "source", "sink", "replay" -> {
                    Session session;
                    try {
                        session = switch (first.op()) {
                            case "sink" -> new SinkSession(this, connection, first);
                            case "replay" -> new ReplaySession(this, connection, first);
                            default -> new SourceSession(this, connection, first);
                        };
                    } catch (Throwable e) { // a class that is missing or cannot be loaded
                        connection.tell(0, failure(e));
                        return;
                    }
                    serve(session, first);
                }
                case "lease" -> serve(new LeaseSession(this, connection, first), first);
                case "chain" -> {
                    ChainSession session = new ChainSession(this, connection, first);
                    if (leased(session.lease)) serve(session, first); // else its task has moved to another host
                }
                case "pulse" -> {
                    pulse.complete(connection);
                    for (Connection.Message m = connection.read(); m != null; m = connection.read())
                        connection.tell(m.id(), retiring == null ? HERE : retiring); // there may be no session to tell
                }
                default -> serve(new PluginRequests(this, connection), first);
            }
        } catch (IOException e) {
            // The worker has closed the connection, or is gone; then its guard ends this process.
        } catch (Throwable e) {
            endIfFull(e);
            e.printStackTrace();
        }
    }

    /**
     * Ends this process after an error that could not be reported, since even that takes memory, or that has ended a
     * thread: the task would stay RUNNING and do nothing. Everything continues in another host.
     */
    private static void endIfFull(Throwable error) {
        if (!ranOut(error)) return;
        last = null;
        try {
            System.err.println("[ERROR] The heap is full: this Java plugin host exits");
        } finally {
            Runtime.getRuntime().halt(FULL);
        }
    }

    /** Whether the error was caused by a full heap. */
    static boolean ranOut(Throwable error) {
        Throwable e = error;
        for (int deep = 0; e != null && deep < CAUSES; deep++, e = e.getCause()) if (e instanceof OutOfMemoryError) return true;
        return false;
    }

    private void serve(Session session, Connection.Message first) throws Exception {
        sessions.add(session);
        if (retiring != null) session.event(retiring);
        try {
            session.listen(first);
        } finally {
            session.connection.close();
            for (Thread thread : session.threads()) awaitEnd(thread);
            sessions.remove(session);
        }
        if (session.ranOut) new Thread(this::checkHeap, "heap").start(); // a new thread, which keeps none of the session's memory alive
    }

    /** After a task has failed for lack of memory: others cannot use memory that its plugin does not release. */
    private void checkHeap() {
        System.gc();
        Runtime now = Runtime.getRuntime();
        if (now.totalMemory() - now.freeMemory() > FULL_FROM * now.maxMemory()) retire("its heap is full");
    }

    private boolean leased(String lease) {
        return leases(lease).findAny().isPresent();
    }

    /** The session of that lease, if it still exists. */
    Stream<LeaseSession> leases(String lease) {
        return sessions.stream().filter(one -> one instanceof LeaseSession task && task.lease.equals(lease))
            .map(LeaseSession.class::cast);
    }

    /** Ends the chains of a task that has ended. */
    void endChains(String lease) throws IOException {
        for (Session session : sessions)
            if (session instanceof ChainSession chain && chain.lease.equals(lease)) chain.connection.close();
    }

    /** After the worker has closed the connection: a thread that hangs cannot be ended, and holds memory, and perhaps locks. */
    private void awaitEnd(Thread thread) throws InterruptedException {
        thread.join(HUNG_MS);
        if (!thread.isAlive()) return;
        int now = hung.incrementAndGet();
        System.err.println("[WARN] Thread '" + thread.getName() + "' hangs after its connection was closed;"
            + " threads that hang in this host: " + now);
        if (now >= mostHung) retire("too many threads hang in it");
        thread.join();
        hung.decrementAndGet();
    }

    /** Accepts no more connections, and tells the worker to move what runs here. */
    private synchronized void retire(String why) {
        if (retiring != null) return;
        Map<String, String> fields = Map.of("op", "retire", "why", why);
        retiring = fields;
        System.err.println("[WARN] This Java plugin host is being replaced: " + why);
        try {
            server.close();
        } catch (IOException e) {
            e.printStackTrace();
        }
        // A thread for each: the worker may not be reading from one of them.
        for (Session session : sessions) new Thread(() -> session.event(fields), "retire").start();
    }

    /** Newer versions of Java cannot prevent System.exit, but the plugin that called it can be named. */
    private void failSessionsOfExitingThread() {
        Thread.getAllStackTraces().forEach((thread, stack) -> {
            for (StackTraceElement frame : stack) {
                if (!frame.getClassName().equals("java.lang.Runtime") || !frame.getMethodName().matches("exit|halt")) continue;
                SecurityException error = new SecurityException(
                    "the plugin called System.exit, which ends its JVM with all Java plugins in it");
                error.setStackTrace(stack);
                for (Session session : sessions) if (session.owns(thread)) session.failed(error);
                return;
            }
        });
    }

    /** Whether a retry is useless until somebody changes something: a wrong configuration, credentials that are refused
     *  (SQL: class 28 of SQLSTATE), a class that is missing or incompatible. */
    private static boolean isPermanent(Throwable error) {
        Throwable cause = error;
        for (int n = 0; cause != null && n < CAUSES; n++, cause = cause.getCause()) {
            if (cause instanceof RetriableException || cause instanceof org.apache.kafka.common.errors.RetriableException)
                return false;
            if (cause instanceof ConfigException || cause instanceof AuthenticationException
                || cause instanceof AuthorizationException || cause instanceof ClassNotFoundException
                || cause instanceof IncompatibleClassChangeError || cause instanceof UnsupportedClassVersionError
                || cause instanceof SQLException sql && String.valueOf(sql.getSQLState()).startsWith("28")) return true;
        }
        return false;
    }

    /** An error as a message. */
    static Map<String, Object> failure(Throwable error) {
        if (ranOut(error)) spare = null;
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("op", "failed");
        fields.put("class", error.getClass().getName());
        fields.put("message", shortened(error.getMessage(), MOST_TEXT)); // possibly null, as in the headers of a dead letter
        fields.put("retriable", error instanceof RetriableException);
        fields.put("permanent", isPermanent(error));
        fields.put("trace", shortened(trace.toString(), MOST_TEXT));
        return fields;
    }

    /** The beginning and the end of a long text of a plugin, such as an error that quotes a record. */
    static String shortened(String text, int most) {
        if (text == null || text.length() <= most) return text;
        int half = most / 2;
        return text.substring(0, half) + "… " + (text.length() - 2 * half) + " characters omitted …" + text.substring(text.length() - half);
    }
}
