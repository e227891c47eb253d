package heeler.host;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A session that serves requests. One thread runs the plugin; another reads, to notice when the worker closes the connection. */
abstract class RequestSession extends Session {
    private static final Connection.Message END = new Connection.Message(0, Map.of("op", "end"));
    private final BlockingQueue<Connection.Message> requests = new LinkedBlockingQueue<>();
    volatile int current; // the id of the request that is being served

    RequestSession(Connection connection) {
        super(connection);
    }

    abstract String name(Connection.Message first);

    abstract Map<String, ?> responseTo(Connection.Message request) throws Exception;

    /** Called at the end, by the thread that runs the plugin. */
    void end() { }

    @Override
    void listen(Connection.Message first) throws IOException {
        thread = new Thread(this::work, name(first));
        thread.start();
        try {
            for (Connection.Message m = first; m != null; m = connection.read()) requests.add(m);
        } finally {
            requests.add(END); // the worker no longer waits for responses
        }
    }

    private void work() {
        try {
            for (Connection.Message m = requests.take(); m != END; m = requests.take()) {
                Map<String, ?> response;
                current = m.id();
                try {
                    response = responseTo(m);
                } catch (Throwable e) { // plugin code
                    response = failure(e);
                }
                connection.tell(m.id(), response);
            }
        } catch (IOException | InterruptedException e) {
            // The worker no longer listens.
        } finally {
            end();
        }
    }
}
