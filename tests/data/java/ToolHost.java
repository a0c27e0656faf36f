import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Runs main classes one after another in this JVM. tests/tool_jvm.py has the other end.
 *
 * <p>Standard input has the requests: a count of strings, then each as its length and UTF-8 bytes.
 * The strings are the text for the tool's standard input, the main class and its arguments. Standard
 * output has frames of a kind, a length and bytes: 'o' and 'e' are what the tool prints, 'x' ends the
 * run: a byte is the exit code, another whether this JVM can run another tool. Other numbers have 32
 * bits, the kind has 8. The end of standard input ends this JVM, whatever runs.
 *
 * <p>A tool that calls System.exit or Runtime.halt itself ends this JVM without a frame 'x'.
 */
public final class ToolHost {
  /** How long threads of a run may take to end after the run has ended. */
  private static final long GRACE_MS = 1_000;

  private static final DataOutputStream FRAMES =
      new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
  private static final Output OUT = new Output('o');
  private static final Output ERR = new Output('e');
  private static final Properties PROPERTIES = (Properties) System.getProperties().clone();
  private static volatile Run current;

  public static void main(String[] none) throws Exception {
    DataInputStream requests = new DataInputStream(new FileInputStream(FileDescriptor.in));
    // Classes keep these streams for good (scala.Console, loggers), so they are the same in each run.
    System.setIn(new Input());
    System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
    Runtime.getRuntime().addShutdownHook(new Thread(ToolHost::send));
    onExit("setExitProcedure", given -> Run.exit((int) given[0]));
    onExit("setHaltProcedure", given -> Run.exit((int) given[0]));
    onExit("setShutdownHookAdder", given -> Run.ofThisThread().hooks.add((Runnable) given[1]));
    try {
      while (true) {
        String[] words = new String[requests.readInt()];
        for (int i = 0; i < words.length; i++) {
          byte[] bytes = new byte[requests.readInt()];
          requests.readFully(bytes);
          words[i] = new String(bytes, StandardCharsets.UTF_8);
        }
        current = new Run(words[0], words[1], Arrays.copyOfRange(words, 2, words.length));
        current.supervisor.start();
      }
    } catch (EOFException over) {
      Runtime.getRuntime().halt(0);
    }
  }

  /** Gives Kafka's class Exit, which 4.4 moved, a procedure through one of its setters. */
  private static void onExit(String setter, Consumer<Object[]> procedure) throws Exception {
    Class<?> exit;
    try {
      exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
    } catch (ClassNotFoundException before44) {
      exit = Class.forName("org.apache.kafka.common.utils.Exit");
    }
    for (Method method : exit.getMethods()) {
      if (method.getName().equals(setter)) {
        Class<?> type = method.getParameterTypes()[0];
        Object proxy =
            Proxy.newProxyInstance(
                type.getClassLoader(),
                new Class<?>[] {type},
                (self, called, given) -> {
                  procedure.accept(given);
                  return null;
                });
        method.invoke(null, proxy);
      }
    }
  }

  private static void frame(char kind, byte[] bytes) {
    synchronized (FRAMES) {
      try {
        FRAMES.writeByte(kind);
        FRAMES.writeInt(bytes.length);
        FRAMES.write(bytes);
        FRAMES.flush();
      } catch (IOException closed) {
        Runtime.getRuntime().halt(0);
      }
    }
  }

  /** Send what was printed and is not sent yet. */
  private static void send() {
    OUT.send();
    ERR.send();
  }

  /** Unwinds a thread that asked for the end of its run. */
  private static final class Exited extends Error {
    Exited() {
      super("exit", null, false, false);
    }
  }

  /** One run of a tool. Its threads are those of this group, whoever starts them. */
  private static final class Run extends ThreadGroup {
    final Thread supervisor = new Thread(this::supervise, "tool-host");
    final InputStream in;
    final List<Runnable> hooks = new ArrayList<>();
    private final Thread main;
    private final CountDownLatch over = new CountDownLatch(1);
    private Integer code;

    Run(String text, String mainClass, String[] arguments) {
      super("run");
      in = new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
      main = new Thread(this, () -> run(mainClass, arguments), "main");
    }

    /** The run of the thread that calls, else the current one. */
    static Run ofThisThread() {
      for (ThreadGroup each = Thread.currentThread().getThreadGroup(); each != null;
          each = each.getParent()) {
        if (each instanceof Run) {
          return (Run) each;
        }
      }
      return current;
    }

    static void exit(int code) {
      ofThisThread().end(code);
      throw new Exited();
    }

    /** The first code counts: a tool that catches all errors calls exit once more. */
    private synchronized void end(int first) {
      if (code == null) {
        code = first;
        over.countDown();
      }
    }

    private synchronized boolean hasExited() {
      return code != null;
    }

    /** Whether output of the calling thread belongs to this run. */
    boolean prints() {
      return ofThisThread() == this && (!hasExited() || Thread.currentThread() == supervisor);
    }

    private void run(String mainClass, String[] arguments) {
      try {
        Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
        awaitThreads(false, Long.MAX_VALUE);
        end(0);
      } catch (InvocationTargetException thrown) {
        Throwable cause = thrown.getCause();
        if (!hasExited()) {
          System.err.print("Exception in thread \"main\" ");
          cause.printStackTrace();
          end(1);
        }
      } catch (Exception wrong) {
        wrong.printStackTrace();
        end(1);
      }
    }

    private void supervise() {
      try {
        main.start();
        over.await();
        hooks.forEach(Runnable::run);
        boolean clean = awaitThreads(true, GRACE_MS);
        send();
        current = null;
        System.setProperties((Properties) PROPERTIES.clone());
        Thread.setDefaultUncaughtExceptionHandler(null);
        frame('x', new byte[] {code.byteValue(), (byte) (clean ? 1 : 0)});
      } catch (Exception wrong) {
        wrong.printStackTrace();
        Runtime.getRuntime().halt(70);
      }
    }

    /** Wait for the threads of this run, daemons among them or not; false when time is up. */
    private boolean awaitThreads(boolean daemons, long withinMs) throws InterruptedException {
      long began = System.nanoTime();
      Thread self = Thread.currentThread();
      while (true) {
        Thread[] found = new Thread[activeCount() + 8];
        int count = enumerate(found);
        Thread one = null;
        for (int i = 0; i < count; i++) {
          if (found[i] != self && (daemons || !found[i].isDaemon())) {
            one = found[i];
          }
        }
        long leftMs = withinMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        if (one == null || leftMs <= 0) {
          return one == null;
        }
        one.join(Math.min(leftMs, 1_000));
      }
    }
  }

  /** Standard input of the current run. */
  private static final class Input extends InputStream {
    @Override
    public int read() throws IOException {
      Run run = current;
      return run == null ? -1 : run.in.read();
    }

    @Override
    public int read(byte[] into, int from, int length) throws IOException {
      Run run = current;
      return run == null ? -1 : run.in.read(into, from, length);
    }

    @Override
    public int available() throws IOException {
      Run run = current;
      return run == null ? 0 : run.in.available();
    }
  }

  /** Standard output or error of the current run; what another run's threads print is dropped. */
  private static final class Output extends OutputStream {
    private static final int SENT_FROM = 8192;
    private final char kind;
    private final ByteArrayOutputStream kept = new ByteArrayOutputStream();

    Output(char kind) {
      this.kind = kind;
    }

    @Override
    public void write(int one) {
      write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] bytes, int from, int length) {
      Run run = current;
      if (run != null && run.prints()) {
        kept.write(bytes, from, length);
        if (kept.size() >= SENT_FROM) {
          send();
        }
      }
    }

    synchronized void send() {
      if (kept.size() > 0) {
        frame(kind, kept.toByteArray());
        kept.reset();
      }
    }
  }
}
