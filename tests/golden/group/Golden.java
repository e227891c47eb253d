// Writes the golden bytes of this folder with Kafka Connect's own classes; JARS holds connect-runtime 4.3.1 and its
// dependencies, OUT is any folder:
//   javac -cp 'JARS/*' -d OUT tests/golden/group/Golden.java
//   java -cp 'OUT:JARS/*' org.apache.kafka.connect.runtime.distributed.Golden > tests/golden/group/golden.txt
// One line each: name and bytes in hex. With --read it reads such lines (bytes that heeler wrote; the name is
// "metadata" or "assignment") from standard input and prints what Kafka Connect understands.
package org.apache.kafka.connect.runtime.distributed;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.connect.util.ConnectorTaskId;

public class Golden {
    static final List<String> NONE = List.of();
    static final List<ConnectorTaskId> NO_TASKS = List.of();

    static ConnectorTaskId task(String connector, int number) {
        return new ConnectorTaskId(connector, number);
    }

    static void print(String name, ByteBuffer bytes) {
        byte[] array = new byte[bytes.remaining()];
        bytes.duplicate().get(array);
        System.out.println(name + " " + HexFormat.of().formatHex(array));
    }

    static void write() {
        ExtendedAssignment full = new ExtendedAssignment((short) 1, (short) 0, "leader-1", "http://leader:8083/", 42L,
            List.of("a", "b"), List.of(task("a", 0), task("a", 1), task("c", 7)),
            List.of("d"), List.of(task("d", 0), task("e", 3)), 300000);
        ExtendedAssignment owned = new ExtendedAssignment((short) 1, (short) 0, "", "", 42L,
            List.of("a"), List.of(task("a", 0), task("b", 2)), NONE, NO_TASKS, 0);
        ExtendedAssignment idle = new ExtendedAssignment((short) 1, (short) 0, "", "", 42L,
            NONE, NO_TASKS, NONE, NO_TASKS, 0);
        ExtendedAssignment failed = new ExtendedAssignment((short) 1, (short) 1, "leader-1", "http://leader:8083/", 9L,
            NONE, NO_TASKS, NONE, NO_TASKS, 0);
        ConnectProtocol.Assignment eager = new ConnectProtocol.Assignment((short) 0, "leader-1", "http://leader:8083/",
            42L, List.of("a", "b"), List.of(task("a", 0), task("a", 1), task("c", 7)));
        String url = "http://w\u00f6rker:8083/";
        print("metadata-v0", ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(url, 42L)));
        for (boolean sessioned : new boolean[] {false, true}) {
            String v = sessioned ? "v2" : "v1";
            print("metadata-" + v + "-owned", IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState(url, 42L, owned), sessioned));
            print("metadata-" + v + "-idle", IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState(url, 42L, idle), sessioned));
            print("metadata-" + v + "-new", IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState(url, -1L, null), sessioned));
            print("assignment-" + v, IncrementalCooperativeConnectProtocol.serializeAssignment(full, sessioned));
            print("assignment-" + v + "-failed",
                IncrementalCooperativeConnectProtocol.serializeAssignment(failed, sessioned));
        }
        print("assignment-v0", ConnectProtocol.serializeAssignment(eager));
    }

    static void read() {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ");
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(parts[1]));
            if (parts[0].equals("metadata")) {
                ExtendedWorkerState state = IncrementalCooperativeConnectProtocol.deserializeMetadata(bytes);
                System.out.println(state.url() + " " + state.offset() + " " + state.assignment().connectors()
                    + " " + state.assignment().tasks());
            } else {
                System.out.println(IncrementalCooperativeConnectProtocol.deserializeAssignment(bytes));
            }
        }
    }

    public static void main(String[] args) {
        if (args.length > 0 && args[0].equals("--read")) {
            read();
        } else {
            write();
        }
    }
}
