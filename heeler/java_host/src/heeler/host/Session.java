package heeler.host;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkTask;

/** One connection, and the threads that run plugin code for it. */
abstract class Session {
    final Connection connection;
    final PluginCalls calls = new PluginCalls(this);
    volatile Thread thread; // the first one; null until it is created
    volatile ClassLoader loader; // the plugin's
    volatile boolean ranOut; // its plugin ran out of memory

    Session(Connection connection) {
        this.connection = connection;
    }

    /** Handles the worker's messages, of which `first` is the first, until it closes the connection. */
    abstract void listen(Connection.Message first) throws Exception;

    /** Those that have been created. */
    List<Thread> threads() {
        return thread == null ? List.of() : List.of(thread);
    }

    /** Whether a thread is the session's own or one that its plugin has started. */
    boolean owns(Thread other) {
        return threads().contains(other) || other.getContextClassLoader() == loader && loader != null;
    }

    /** Reports an error of the plugin, which has failed or has ended the host. */
    void failed(Throwable error) {
        event(failure(error));
    }

    /** An error as a message. */
    Map<String, Object> failure(Throwable error) {
        Map<String, Object> fields = Host.failure(error);
        ranOut = ranOut || Host.ranOut(error);
        return fields;
    }

    /** Stops a task. As in Kafka Connect, its error is only logged: it must not replace the one that has failed the task. */
    void stop(Task task) {
        try (PluginCalls.Call call = calls.of("stop")) {
            task.stop();
        } catch (Throwable e) { // plugin code
            ranOut = ranOut || Host.ranOut(e);
            System.err.println("[WARN] Could not stop the task");
            e.printStackTrace();
        }
    }

    /** Takes partitions away from a sink's task. */
    void close(SinkTask task, Collection<TopicPartition> lost) {
        try (PluginCalls.Call call = calls.of("close")) { task.close(lost); }
    }

    /** Says which calls of the plugin have not returned, in a thread of its own: the one that reads must not wait for a write. */
    void describeCalls(Connection.Message request) {
        new Thread(() -> tell(request.id(), calls.described()), "where").start();
    }

    /** Sends the worker a message that is not a response. */
    void event(Map<String, ?> fields) {
        tell(0, fields);
    }

    void tell(int id, Map<String, ?> fields) {
        try {
            connection.tell(id, fields);
        } catch (IOException e) {
            // The worker has closed the connection.
        }
    }
}
