import java.util.concurrent.locks.LockSupport;

/** A tool for the tests of tests/tool_jvm.py: does what its arguments name, in their order. */
public final class Trial {
  public static void main(String[] arguments) throws Exception {
    for (String each : arguments) {
      String[] parts = each.split("=", 2);
      switch (parts[0]) {
        case "out" -> System.out.println(parts[1]);
        case "err" -> System.err.println(parts[1]);
        case "echo" -> System.in.transferTo(System.out);
        case "exit" -> Exit.exit(Integer.parseInt(parts[1]));
        case "halt" -> Exit.halt(Integer.parseInt(parts[1]));
        case "real-exit" -> System.exit(Integer.parseInt(parts[1]));
        case "exit-twice" -> exitTwice();
        case "throw" -> throw new IllegalStateException(parts[1]);
        case "hook" -> Exit.addShutdownHook("trial", () -> System.out.println(parts[1]));
        case "thread" -> start(() -> System.out.println(parts[1]), false);
        case "stay" -> start(LockSupport::park, true);
        case "hang" -> LockSupport.park();
        case "set" -> System.setProperty("trial", parts[1]);
        case "get" -> System.out.println(System.getProperty("trial"));
        default -> throw new IllegalArgumentException(each);
      }
    }
  }

  /** As tools do whose exit is within a block that catches everything. */
  private static void exitTwice() {
    try {
      Exit.exit(5);
    } catch (Throwable caught) {
      System.out.println("printed after the exit");
      Exit.exit(1);
    }
  }

  private static void start(Runnable what, boolean daemon) {
    Thread thread = new Thread(what);
    thread.setDaemon(daemon);
    thread.start();
  }
}
