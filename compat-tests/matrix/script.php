<?php
// PUT answers with length and SHA-256, GET sends a file beside this script; /small sends 1 KiB. ?slow reads with pauses.
if ($_SERVER['REQUEST_METHOD'] === 'PUT') {
    $body = fopen('php://input', 'rb');
    $digest = hash_init('sha256');
    $length = 0;
    while (!feof($body)) {
        $piece = fread($body, 65536);
        hash_update($digest, $piece);
        $length += strlen($piece);
        if ($_SERVER['QUERY_STRING'] === 'slow') {
            usleep(200);
        }
    }
    echo $length, ' ', hash_final($digest), "\n";
} else {
    $name = basename(strtok($_SERVER['REQUEST_URI'], '?'));
    if ($name === 'small') {
        echo str_repeat('x', 1024);
    } else {
        $file = __DIR__ . '/' . $name;
        // Without it nginx takes a process that dies between two records for the end of the answer.
        header('Content-Length: ' . filesize($file));
        readfile($file);
    }
}
