// Package tracefile reads files of recorded traffic, and writes a trace as a file.
//
//	request log    CSV or JSON lines, one row per request
//	windowed rate  CSV: start, requests/s, CV, family; or a tar archive with one CSV per client, as in ServeGen (arXiv:2505.09999)
//	Prometheus     saved JSON of /api/v1/query_range; each sample is the rate of a window
//
// [Open] detects the format, the columns and the unit of the timestamps; [Options] or a trace.yaml set them explicitly. Each file can be
// compressed with gzip. [WriteCSV] writes a request log that Open reads back without a difference.
//
// In windowed rates, a gap of more than five minutes is an error unless [Gaps] sets its rate. A file that cannot be read is a
// [*trace.Error] with the file, the line, the found text and the allowed forms.
//
// The bytes of a file are read by package input, and timestamps by package timestamp. Both are also used for spot traces.
package tracefile
