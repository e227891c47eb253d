// The English names of time zones with the minutes east of UTC that SimpleDateFormat takes them for, if these are the same
// from 1950 to 2099: `java Zones.java`. The table is spark_tasks/java/zone_names.py.
import java.text.DateFormatSymbols;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.Date;
import java.util.Locale;
import java.util.TimeZone;
import java.util.TreeSet;

public class Zones {
    static final TimeZone UTC = TimeZone.getTimeZone("UTC");

    static Long offset(String name) {
        Long found = null;
        var plain = new SimpleDateFormat("yyyy-MM-dd HH:mm", Locale.ENGLISH);
        plain.setTimeZone(UTC);
        for (long moment = -631152000000L; moment < 4102444800000L; moment += 9 * 86400000L) {
            var format = new SimpleDateFormat("yyyy-MM-dd HH:mm z", Locale.ENGLISH);
            format.setTimeZone(UTC);
            String text = plain.format(new Date(moment)) + " " + name;
            var position = new ParsePosition(0);
            Date parsed = format.parse(text, position);
            if (parsed == null || position.getIndex() != text.length()) return null;
            long offset = moment - parsed.getTime();
            if (found != null && found != offset) return null;
            found = offset;
        }
        return found;
    }

    public static void main(String[] arguments) {
        TimeZone.setDefault(UTC);
        var names = new TreeSet<String>();
        for (String[] zone : DateFormatSymbols.getInstance(Locale.ENGLISH).getZoneStrings())
            for (int i = 1; i < 5; i++) names.add(zone[i]);
        for (String name : names) {
            Long offset = name.matches("[+-].*|GMT.*|") ? null : offset(name);
            if (offset != null) System.out.println(name + "\t" + offset / 60000);
        }
    }
}
