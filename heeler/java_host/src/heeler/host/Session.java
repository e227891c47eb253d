package heeler.host;

import java.io.IOException;
import java.util.Map;

/** Something that has a connection and a thread that runs plugin code. */
abstract class Session {
    final Connection connection;
    volatile Thread thread; // null where there is none yet
    volatile ClassLoader loader; // the plugin's
    volatile boolean ranOut; // its plugin found no memory

    Session(Connection connection) {
        this.connection = connection;
    }

    /** Heed the worker until it closes the connection. `first`: what it said first. */
    abstract void listen(Connection.Message first) throws Exception;

    /** Whether this thread is its own, or one that its plugin has started. */
    boolean owns(Thread other) {
        return other == thread || other.getContextClassLoader() == loader && loader != null;
    }

    /** What the plugin did that fails it, or ends the host. */
    void blame(Throwable error) {
        event(failure(error));
    }

    /** An error as a message. */
    Map<String, Object> failure(Throwable error) {
        Map<String, Object> told = Host.failure(error);
        ranOut = ranOut || Host.ranOut(error);
        return told;
    }

    /** Something that the worker did not ask for. */
    void event(Map<String, ?> told) {
        tell(0, told);
    }

    void tell(int id, Map<String, ?> told) {
        try {
            connection.tell(id, told);
        } catch (IOException e) {
            // The worker has given this up.
        }
    }
}
