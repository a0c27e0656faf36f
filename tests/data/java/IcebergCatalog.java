import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/** A catalog of Iceberg's over REST, on loopback alone. Arguments: its port, and where tables are. */
final class IcebergCatalog {
  public static void main(String[] given) throws Exception {
    InMemoryCatalog catalog = new InMemoryCatalog();
    String files = "org.apache.iceberg.hadoop.HadoopFileIO";
    catalog.initialize("lake", Map.of("warehouse", given[1], "io-impl", files));
    RESTCatalogServlet servlet = new RESTCatalogServlet(new RESTCatalogAdapter(catalog));
    ServletContextHandler handler = new ServletContextHandler();
    handler.addServlet(new ServletHolder(servlet), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(given[0])));
    server.setHandler(handler);
    server.start();
    server.join();
  }
}
