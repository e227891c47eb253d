// Which bytes are a message, and of which values: one JSON object a line in, one a line out. `file`: a descriptor in
// Base64, whose message m0 is meant. `payload`: in hexadecimal digits.
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.*;
import java.util.*;
import java.util.regex.*;

public class Driver {
    static final Map<String, Descriptor> KNOWN = new HashMap<>();

    static Descriptor message(String file) {
        return KNOWN.computeIfAbsent(file, text -> {
            try {
                var parsed = FileDescriptorProto.parseFrom(Base64.getDecoder().decode(text));
                return FileDescriptor.buildFrom(parsed, new FileDescriptor[0]).findMessageTypeByName("m0");
            } catch (Exception problem) {
                throw new IllegalArgumentException(problem);
            }
        });
    }

    static String member(String line, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(line);
        if (!found.find()) throw new IllegalArgumentException(line);
        return found.group(1);
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            byte[] payload = HexFormat.of().parseHex(member(line, "payload"));
            try {
                var message = DynamicMessage.parseFrom(message(member(line, "file")), payload);
                System.out.println("{\"message\": \"" + HexFormat.of().formatHex(message.toByteArray()) + "\"}");
            } catch (InvalidProtocolBufferException problem) {
                System.out.println("{\"error\": \"" + problem.getMessage().replace("\"", "'").replace("\n", " ") + "\"}");
            }
        }
    }
}
