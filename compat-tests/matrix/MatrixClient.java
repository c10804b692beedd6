import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * The client of MatrixServer: content PORT ECHO_PORT FILE checks every byte of java.net.http and of echoes by a plain
 * Socket and by a blocking SocketChannel, and prints `right`; rate PORT SECONDS asks for 1 KiB.
 */
class MatrixClient {
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "content" -> {
                byte[] content = Files.readAllBytes(Path.of(words[3]));
                http(words[1], words[3], content);
                socket(Integer.parseInt(words[2]), content);
                channel(Integer.parseInt(words[2]), content);
                System.out.println("right");
            }
            default -> rate(words[1], Integer.parseInt(words[2]));
        }
        System.exit(0);
    }

    static HttpRequest.Builder to(String port, String path) {
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/" + path));
    }

    static void http(String port, String file, byte[] content) throws Exception {
        same("download", content, CLIENT.send(to(port, file).build(), BodyHandlers.ofByteArray()).body());
        String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
        for (String path : new String[] {"put", "put?slowly"}) {
            HttpRequest request = to(port, path).PUT(BodyPublishers.ofByteArray(content)).build();
            String told = CLIENT.send(request, BodyHandlers.ofString()).body().trim();
            if (!told.equals(content.length + " " + digest)) {
                throw new Exception(path + ": the server received " + told);
            }
        }
        HttpRequest echo = to(port, "echo").POST(BodyPublishers.ofByteArray(content)).build();
        same("echo", content, CLIENT.send(echo, BodyHandlers.ofByteArray()).body());
        InputStream slowly = CLIENT.send(to(port, file).build(), BodyHandlers.ofInputStream()).body();
        byte[] arrived = new byte[content.length];
        int at = 0;
        for (int n; at < arrived.length && (n = slowly.read(arrived, at, Math.min(65536, arrived.length - at))) > 0; at += n) {
            Thread.sleep(at % 8 == 0 ? 1 : 0);
        }
        same("slow download", content, Arrays.copyOf(arrived, at));
    }

    /** One thread writes, one reads, slowly at first. */
    static void socket(int port, byte[] content) throws Exception {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", port));
            OutputStream out = socket.getOutputStream();
            Thread writer = new Thread(() -> {
                try {
                    out.write(content);
                    socket.shutdownOutput();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
            writer.start();
            Thread.sleep(200);
            same("echo by a Socket", content, socket.getInputStream().readNBytes(content.length));
            writer.join();
        }
    }

    static void channel(int port, byte[] content) throws Exception {
        try (SocketChannel channel = SocketChannel.open(new InetSocketAddress("127.0.0.1", port))) {
            byte[] arrived = new byte[content.length];
            for (int at = 0; at < content.length; ) {
                int length = Math.min(1 + at % 65536, content.length - at);
                ByteBuffer piece = ByteBuffer.wrap(content, at, length);
                while (piece.hasRemaining()) {
                    channel.write(piece);
                }
                ByteBuffer back = ByteBuffer.wrap(arrived, at, length);
                while (back.hasRemaining() && channel.read(back) >= 0) {}
                at += length;
            }
            same("echo by a SocketChannel", content, arrived);
        }
    }

    static void same(String what, byte[] sent, byte[] arrived) throws Exception {
        int right = Arrays.mismatch(sent, arrived);
        if (right >= 0) {
            throw new Exception(what + ": " + right + " of " + sent.length + " bytes are right, " + arrived.length + " arrived");
        }
    }

    static void rate(String port, int seconds) throws Exception {
        long begin = System.nanoTime(), count = 0;
        for (; System.nanoTime() - begin < seconds * 1e9; count++) {
            if (CLIENT.send(to(port, "1k").build(), BodyHandlers.ofByteArray()).body().length != 1024) {
                throw new Exception("another answer came");
            }
        }
        System.out.printf("%d requests in %.3f s%n", count, (System.nanoTime() - begin) / 1e9);
    }
}
