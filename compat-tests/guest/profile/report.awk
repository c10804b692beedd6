# Instructions per round by function: from "ADDRESS - NAME" (the symbols, from /proc/kallsyms) and "ADDRESS INSTRUCTIONS
# TIMES..." (counts.c), sorted by address together. -v names="PHASE PHASE..." -v rounds=N -v least=INSTRUCTIONS
$2 == "-" { here = $3; next }
{
    for (i = 3; i <= NF; i++) {
        n = $2 * $i / rounds
        sum[i] += n
        if (here ~ /^dp:/) ours[i] += n
        by[(here == "" ? "[program]" : here), i] += n
    }
    seen[here == "" ? "[program]" : here] = 1
    # The last phase is what is in between the others.
    fields = NF - 1
}
END {
    split(names, name, " ")
    printf "%-64s", "instructions"
    for (i = 3; i <= fields; i++) printf " %12s", name[i - 2]
    print ""
    printf "%-64s", "all"
    for (i = 3; i <= fields; i++) printf " %12.0f", sum[i]
    print ""
    printf "%-64s", "all of the driver (dp:)"
    for (i = 3; i <= fields; i++) printf " %12.0f", ours[i]
    print ""
    for (s in seen) {
        most = 0
        for (i = 3; i <= fields; i++) if (by[s, i] > most) most = by[s, i]
        if (most < least) continue
        printf "%-64s", s | "sort -k2,2nr"
        for (i = 3; i <= fields; i++) printf " %12.0f", by[s, i] | "sort -k2,2nr"
        print "" | "sort -k2,2nr"
    }
}
