import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;

/** Prints what Kafka's own client is told of a group: protocol type, protocol, state, then each member's client id. */
class DescribeGroup {
    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            var group = admin.describeClassicGroups(List.of(args[1])).all().get().get(args[1]);
            System.out.println(group.protocol() + " " + group.protocolData() + " " + group.state());
            group.members().stream().map(member -> member.clientId()).sorted().forEach(System.out::println);
        }
    }
}
