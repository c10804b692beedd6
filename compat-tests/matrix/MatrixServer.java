import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.concurrent.Executors;

/**
 * An HttpServer, and beside it an echo by NIO: MatrixServer PORT ECHO_PORT. GET sends a file of the working folder, PUT
 * answers with length and SHA-256, POST sends back what comes; a query makes it read with pauses.
 */
class MatrixServer {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 128);
        server.createContext("/", MatrixServer::answer);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
        echo(Integer.parseInt(words[1]));
    }

    static void answer(HttpExchange exchange) throws IOException {
        try (exchange; InputStream in = exchange.getRequestBody(); OutputStream out = exchange.getResponseBody()) {
            String path = exchange.getRequestURI().getPath();
            switch (exchange.getRequestMethod()) {
                case "PUT" -> {
                    byte[] told = (digest(in, exchange.getRequestURI().getQuery() != null) + "\n").getBytes();
                    exchange.sendResponseHeaders(200, told.length);
                    out.write(told);
                }
                case "POST" -> {
                    // java.net.http reads no answer before it has sent all.
                    byte[] content = in.readAllBytes();
                    exchange.sendResponseHeaders(200, content.length);
                    out.write(content);
                }
                default -> {
                    byte[] content = path.equals("/1k") ? new byte[1024] : Files.readAllBytes(Path.of("." + path));
                    exchange.sendResponseHeaders(200, content.length);
                    out.write(content);
                }
            }
        } catch (Exception error) {
            throw new IOException(error);
        }
    }

    static String digest(InputStream in, boolean slowly) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        byte[] piece = new byte[65536];
        long length = 0;
        for (int n; (n = in.read(piece)) >= 0; length += n) {
            digest.update(piece, 0, n);
            if (slowly) {
                Thread.sleep(1);
            }
        }
        return length + " " + HexFormat.of().formatHex(digest.digest());
    }

    /** One thread, one selector; who does not read is not written to. */
    static void echo(int port) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress("127.0.0.1", port), 128);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel accepted = listener.accept();
                    accepted.configureBlocking(false);
                    accepted.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(65536));
                    continue;
                }
                try {
                    move(key);
                } catch (IOException gone) {
                    key.cancel();
                    key.channel().close();
                }
            }
            selector.selectedKeys().clear();
        }
    }

    static void move(SelectionKey key) throws IOException {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        // No interest in reading is left once the end has come, and what is in the buffer goes out before the close.
        boolean ended = (key.interestOps() & SelectionKey.OP_READ) == 0 && buffer.hasRemaining();
        if (key.isReadable() && channel.read(buffer) < 0) {
            ended = true;
        }
        buffer.flip();
        channel.write(buffer);
        buffer.compact();
        if (ended && buffer.position() == 0) {
            key.cancel();
            channel.close();
            return;
        }
        int interest = buffer.position() > 0 ? SelectionKey.OP_WRITE : 0;
        key.interestOps(interest | (buffer.hasRemaining() && !ended ? SelectionKey.OP_READ : 0));
    }
}
