package heeler.host;

import java.io.IOException;
import java.util.Map;

/** Something that has a connection and a thread that runs plugin code. */
abstract class Session {
    final Connection connection;
    volatile Thread thread; // null where there is none yet
    volatile ClassLoader loader; // the plugin's

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
        event(Host.failure(error));
    }

    /** Something that the worker did not ask for. */
    void event(Map<String, ?> told) {
        try {
            connection.tell(0, told);
        } catch (IOException e) {
            // The worker has given this up.
        }
    }
}
