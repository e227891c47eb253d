// What java.util.regex.Pattern makes of patterns: `cut -f2- patterns.tsv | java Patterns.java` (the first column is what
// it printed). A line has a pattern and texts, with tabs between them and %uXXXX for characters. Prints 1 for each text that
// matches as a whole and 0 for others, or "error".
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

public class Patterns {
    static String text(String shown) {
        return Pattern.compile("%u(\\w{4})").matcher(shown).replaceAll(
            found -> Matcher.quoteReplacement(String.valueOf((char) Integer.parseInt(found.group(1), 16))));
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", -1);
            var answer = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(text(parts[0]));
                for (int i = 1; i < parts.length; i++) answer.append(pattern.matcher(text(parts[i])).matches() ? 1 : 0);
            } catch (PatternSyntaxException e) {
                answer.append("error");
            }
            System.out.println(answer);
        }
    }
}
