import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.connect.cli.ConnectDistributed;

/** A distributed worker that writes every second which attributes its MBeans have: FILE PROPERTIES. */
public class Jmx {
    public static void main(String[] arguments) throws Exception {
        Path file = Path.of(arguments[0]);
        Thread dumping = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(1000);
                    dump(file);
                }
            } catch (Exception e) {
                e.printStackTrace();
            }
        });
        dumping.setDaemon(true);
        dumping.start();
        ConnectDistributed.main(Arrays.copyOfRange(arguments, 1, arguments.length));
    }

    /** Lines of type, the keys of its other properties, attribute and value. */
    private static void dump(Path file) throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        TreeSet<String> lines = new TreeSet<>();
        for (ObjectName name : server.queryNames(new ObjectName("kafka.connect:*"), null)) {
            TreeSet<String> keys = new TreeSet<>(name.getKeyPropertyList().keySet());
            keys.remove("type");
            for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes())
                lines.add(name.getKeyProperty("type") + "\t" + String.join(",", keys) + "\t" + attribute.getName()
                    + "\t" + server.getAttribute(name, attribute.getName()));
        }
        Path next = file.resolveSibling(file.getFileName() + ".new");
        try (PrintWriter out = new PrintWriter(next.toFile())) {
            lines.forEach(out::println);
        }
        Files.move(next, file, StandardCopyOption.REPLACE_EXISTING);
    }
}
