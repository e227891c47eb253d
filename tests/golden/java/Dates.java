// What java.text.SimpleDateFormat makes of texts and moments in UTC and English: `cut -f2- dates.tsv | java Dates.java` (the
// first column is what it printed). A line has "p" (parse) or "f" (format), a pattern, and a text or milliseconds.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.text.ParseException;
import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.Locale;
import java.util.TimeZone;

public class Dates {
    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", -1);
            var format = new SimpleDateFormat(parts[1], Locale.ENGLISH);
            format.setTimeZone(TimeZone.getTimeZone("UTC"));
            try {
                out.println(parts[0].equals("p") ? format.parse(parts[2]).getTime() : format.format(new Date(Long.parseLong(parts[2]))));
            } catch (ParseException e) {
                out.println("error");
            }
        }
    }
}
