import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Objects;
import java.util.concurrent.Callable;

/** What the scenario shares with its sisters: the report lines and the talk with `cargo xtask e2e` (see ../README.md). */
final class Harness {
  static final boolean FIRST_LEVEL = "first".equals(System.getenv("HELENUS_E2E_LEVEL"));

  /** One check; it passes when it returns. */
  interface Check {
    void run() throws Exception;
  }

  static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  /** Runs one check and reports it; the scenario ends at the first failure. */
  static void check(String name, Check check) {
    try {
      check.run();
    } catch (Throwable failure) {
      say("FAILED " + name);
      failure.printStackTrace();
      System.exit(1);
    }
    say("ok " + name);
  }

  /** A check of a type that the first level of the server does not have yet. */
  static void checkBeyondFirst(String name, Check check) {
    if (FIRST_LEVEL) {
      say("skip " + name + ": not in the first level");
    } else {
      check(name, check);
    }
  }

  static void equal(Object got, Object wanted) {
    if (!Objects.deepEquals(got, wanted)) {
      throw new AssertionError("got    " + got + "\nwanted " + wanted);
    }
  }

  /** The call must throw exactly this class, with the fragment in its message. */
  static void refused(Class<? extends Exception> kind, String fragment, Callable<?> call) throws Exception {
    try {
      call.call();
    } catch (Exception error) {
      if (error.getClass() != kind) {
        throw new AssertionError("wanted " + kind.getName(), error);
      }
      if (!error.getMessage().contains(fragment)) {
        throw new AssertionError("'" + fragment + "' is missing", error);
      }
      return;
    }
    throw new AssertionError("no " + kind.getName() + " was thrown");
  }

  /** Waits until the condition holds; errors on the way count as not yet. */
  static void eventually(String what, Callable<Boolean> condition) throws Exception {
    Exception last = null;
    for (int attempt = 0; attempt < 900; attempt++) {
      try {
        if (condition.call()) {
          return;
        }
      } catch (Exception error) {
        last = error;
      }
      Thread.sleep(100);
    }
    throw new AssertionError("not within 90 s: " + what, last);
  }

  /** Asks the harness for a restart of the server; false when the server is not its own. */
  static boolean restartServer() throws IOException {
    say("RESTART PLEASE");
    String answer = new BufferedReader(new InputStreamReader(System.in)).readLine();
    if ("DONE".equals(answer)) {
      return true;
    }
    if ("SKIP".equals(answer)) {
      return false;
    }
    throw new IOException("unexpected answer of the harness: " + answer);
  }

  private Harness() {}
}
