package heeler.host;

import java.io.IOException;

/** The lease of a Python connector's task: as long as this connection is open, executors may use the task's chain here. */
final class LeaseSession extends Session {
    final String lease;
    private final Host host;

    LeaseSession(Host host, Connection connection, Connection.Message first) {
        super(connection);
        this.host = host;
        lease = first.text("lease");
    }

    @Override
    void listen(Connection.Message first) throws IOException {
        connection.tell(first.id(), java.util.Map.of("op", "answer"));
        try {
            while (connection.read() != null) { }
        } finally {
            host.endChains(lease);
        }
    }
}
