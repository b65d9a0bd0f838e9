import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/** Iceberg's test catalog over HTTP, for this machine alone: its own main listens on every interface. */
public final class LoopbackCatalog {
  /** Port, address of a database, place of the tables. */
  public static void main(String[] given) throws Exception {
    Map<String, String> properties =
        Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog", "uri", given[1], "warehouse", given[2]);
    RESTCatalogAdapter catalog =
        new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("rest", properties, null));
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(catalog)), "/*");
    int port = Integer.parseInt(given[0]);
    Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
