package heeler.host;

import java.io.IOException;

/** A task of a Python connector has a chain here, for as long as this connection stands. */
final class LeaseSession extends Session {
    final String lease;
    private final Host host;

    LeaseSession(Host host, Connection connection, Connection.Message order) {
        super(connection);
        this.host = host;
        lease = order.text("lease");
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
