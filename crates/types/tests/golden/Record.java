// Records what Apache Cassandra answers, for golden_values.rs.
//
//   javac -cp 'JARS/*' -d OUT Record.java && java -cp 'OUT:JARS/*' Record < cases.tsv > answers.tsv
//
// JARS is a folder with cassandra-all and its dependencies. A case is an operation, a type and its inputs, separated
// by tabs; the answer is the same line with one more field. Backslash, tab, newline and return are escaped.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.cql3.ColumnSpecification;
import org.apache.cassandra.cql3.Constants;
import org.apache.cassandra.cql3.Duration;
import org.apache.cassandra.cql3.FieldIdentifier;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.functions.OperationFcts;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.ListType;
import org.apache.cassandra.db.marshal.NumberType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.marshal.TemporalType;
import org.apache.cassandra.db.marshal.TimeUUIDType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.marshal.UserType;
import org.apache.cassandra.schema.CQLTypeParser;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.apache.cassandra.utils.JsonUtils;
import org.apache.cassandra.utils.TimeUUID;

public class Record
{
    private static final UserType PERSON = new UserType(
        "ks",
        UTF8Type.instance.decompose("person"),
        Arrays.asList(FieldIdentifier.forInternalString("name"),
                      FieldIdentifier.forInternalString("age"),
                      FieldIdentifier.forInternalString("Home")),
        Arrays.asList(UTF8Type.instance, Int32Type.instance, ListType.getInstance(Int32Type.instance, false)),
        false);

    public static void main(String[] args) throws Exception
    {
        DatabaseDescriptor.clientInitialization();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine())
        {
            String[] fields = line.split("\t", -1);
            for (int i = 0; i < fields.length; i++)
                fields[i] = unescape(fields[i]);
            String answer;
            try
            {
                answer = "=" + answer(fields);
            }
            catch (Throwable e)
            {
                answer = "!" + e.getClass().getSimpleName() + ": " + e.getMessage();
            }
            out.print(line + "\t" + escape(answer) + "\n");
        }
        out.flush();
    }

    private static AbstractType<?> type(String cql)
    {
        return CQLTypeParser.parse("ks", cql, Types.of(PERSON));
    }

    private static String answer(String[] fields) throws Exception
    {
        AbstractType<?> type = type(fields[1]);
        ProtocolVersion version = ProtocolVersion.V5;
        switch (fields[0])
        {
            case "parse":
                return hex(type.fromString(fields[2]));
            case "cql":
                return type.toCQLString(bytes(fields[2]));
            case "plain":
                return type.getString(bytes(fields[2]));
            case "json":
                return type.toJSONString(bytes(fields[2]), version);
            case "validate":
                type.validate(bytes(fields[2]));
                return "";
            case "fromjson":
                return hex(type.fromJSONObject(JsonUtils.decodeJson(fields[2])).bindAndGet(QueryOptions.DEFAULT));
            case "compare":
                return Integer.toString(Integer.signum(type.compare(bytes(fields[2]), bytes(fields[3]))));
            case "literal":
                return literal(type, fields[2], fields[3]);
            case "bounds":
                long millis = Long.parseLong(fields[2]);
                return hex(TimeUUID.minAtUnixMillis(millis).toBytes()) + " " + hex(TimeUUID.maxAtUnixMillis(millis).toBytes())
                       + " " + hex(SimpleDateType.instance.fromTimeInMillis(millis));
            case "millis":
                return Long.toString(TimeUUIDType.instance.toTimeInMillis(bytes(fields[2])));
            case "abs":
                return hex(number(type).abs((Number) type.compose(bytes(fields[2]))));
            case "exp":
                return hex(number(type).exp((Number) type.compose(bytes(fields[2]))));
            case "log":
                return hex(number(type).log((Number) type.compose(bytes(fields[2]))));
            case "log10":
                return hex(number(type).log10((Number) type.compose(bytes(fields[2]))));
            case "round":
                return hex(number(type).round((Number) type.compose(bytes(fields[2]))));
            default:
                return operate(fields[0], type, bytes(fields[2]), type(fields[3]), bytes(fields[4]));
        }
    }

    private static NumberType<?> number(AbstractType<?> type)
    {
        return (NumberType<?>) type;
    }

    private static String literal(AbstractType<?> type, String kind, String text)
    {
        Constants.Literal literal;
        switch (kind)
        {
            case "STRING": literal = Constants.Literal.string(text); break;
            case "INTEGER": literal = Constants.Literal.integer(text); break;
            case "UUID": literal = Constants.Literal.uuid(text); break;
            case "FLOAT": literal = Constants.Literal.floatingPoint(text); break;
            case "BOOLEAN": literal = Constants.Literal.bool(text); break;
            case "HEX": literal = Constants.Literal.hex(text); break;
            default: literal = Constants.Literal.duration(text);
        }
        ColumnSpecification receiver = new ColumnSpecification("ks", "t", new ColumnIdentifier("v", true), type);
        String match = literal.testAssignment("ks", receiver).toString();
        return match + " " + hex(literal.prepare("ks", receiver).bytes);
    }

    private static String operate(String operator, AbstractType<?> left, ByteBuffer a, AbstractType<?> right, ByteBuffer b)
    throws Exception
    {
        if (left instanceof TemporalType)
        {
            TemporalType<?> type = (TemporalType<?>) left;
            Duration duration = (Duration) right.compose(b);
            long millis = type.toTimeInMillis(a);
            return hex(operator.equals("+") ? type.addDuration(millis, duration) : type.substractDuration(millis, duration));
        }
        java.lang.reflect.Method returnType =
            OperationFcts.class.getDeclaredMethod("returnType", NumberType.class, NumberType.class);
        returnType.setAccessible(true);
        NumberType<?> type = (NumberType<?>) returnType.invoke(null, left, right);
        Number x = (Number) left.compose(a);
        Number y = (Number) right.compose(b);
        String name = type.asCQL3Type() + ":";
        switch (operator)
        {
            case "+": return name + hex(type.add(x, y));
            case "-": return name + hex(type.substract(x, y));
            case "*": return name + hex(type.multiply(x, y));
            case "/": return name + hex(type.divide(x, y));
            case "%": return name + hex(type.mod(x, y));
            default: throw new IllegalArgumentException(operator);
        }
    }

    private static ByteBuffer bytes(String hex)
    {
        return ByteBufferUtil.hexToBytes(hex);
    }

    private static String hex(ByteBuffer bytes)
    {
        return bytes == null ? "null" : ByteBufferUtil.bytesToHex(bytes);
    }

    private static String escape(String text)
    {
        return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }

    private static String unescape(String text)
    {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < text.length(); i++)
        {
            char c = text.charAt(i);
            if (c != '\\' || i + 1 == text.length())
            {
                out.append(c);
                continue;
            }
            char next = text.charAt(++i);
            out.append(next == 't' ? '\t' : next == 'n' ? '\n' : next == 'r' ? '\r' : next);
        }
        return out.toString();
    }
}
