package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"modeldock.io/internal/api/openapi"
)

// flags are what fields without a counterpart in a request's text are called
// on the command line.
var flags = map[string]string{"tenant": "--tenant NAME", "why": "--why TEXT"}

// check turns an answer that is not a success into an error with its exit code.
func check(code int, status, contentType string, body []byte) error {
	if code < http.StatusMultipleChoices {
		if len(body) > 0 && !strings.Contains(contentType, "json") {
			return strangeAnswer(status, contentType)
		}
		return nil
	}
	var e openapi.Error
	if json.Unmarshal(body, &e) != nil || e.Error.Message == "" {
		return &exitError{exitOf(code), fmt.Errorf("the server answered %s: is there a ModelDock at this URL?", status)}
	}
	message := e.Error.Message
	field := text(e.Error.Field)
	if field != "" && !strings.Contains(message, field) {
		message += " (field " + field + ")"
	}
	if e.Error.Code != "" { // the gateway has errors without one
		message += " (" + e.Error.Code + ")"
	}
	if flag := flags[field]; flag != "" && code == http.StatusBadRequest {
		message += "; on the command line: " + flag
	}
	exit := exitOf(code)
	if e.Error.Code == "budget_blocked" { // a conflict with others, not with the request
		exit = exitBroken
	}
	return &exitError{exit, errors.New(plain(message))}
}

func strangeAnswer(status, contentType string) error {
	return failed(fmt.Errorf("the server answered %s with %q, which no ModelDock does: is there one at this URL?", status, contentType))
}
